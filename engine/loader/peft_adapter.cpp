// Reading a PEFT adapter's folder: the plan from its configuration, the weights from its tensors.
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "engine/base/check.h"
#include "engine/loader/adapter.h"
#include "engine/loader/adapter_layout.h"
#include "engine/loader/json.h"
#include "engine/loader/parallel.h"
#include "engine/loader/peft_config.h"
#include "engine/loader/safetensors_header.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxConfigBytes = 1 << 20;

// "model.layers.0.self_attn.q_proj" and "A" of
// "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"; some tools leave the name of
// the adapter, "default", before ".weight".
struct TensorName {
  std::string_view path;
  bool is_a;
};

Result<TensorName> parse_tensor_name(std::string_view name) {
  constexpr std::string_view kPrefix = "base_model.model.";
  const auto holds = [name](std::string_view part) {
    return name.find(part) != std::string_view::npos;
  };
  if (holds("lora_magnitude_vector")) return invalid("tensor '{}': DoRA is not supported", name);
  if (holds("lora_embedding_")) {
    return invalid("tensor '{}': LoRA on the embedding is not supported", name);
  }
  if (holds("modules_to_save")) {
    return invalid("tensor '{}': whole modules in an adapter are not supported", name);
  }
  if (name.ends_with(".bias")) {
    return invalid("tensor '{}': adapters with a bias are not supported", name);
  }
  std::string_view rest = name;
  if (rest.starts_with(kPrefix)) rest.remove_prefix(kPrefix.size());
  for (const std::string_view ending : {".default.weight", ".weight"}) {
    if (!rest.ends_with(ending)) continue;
    const std::string_view stem = rest.substr(0, rest.size() - ending.size());
    const bool is_a = stem.ends_with(".lora_A");
    if (rest.size() == name.size() || (!is_a && !stem.ends_with(".lora_B"))) continue;
    return TensorName{stem.substr(0, stem.size() - 7), is_a};
  }
  return invalid("tensor '{}' is not A or B of a LoRA module", name);
}

struct Pair {
  const TensorInfo* a = nullptr;
  const TensorInfo* b = nullptr;
};
using Pairs = std::map<std::string, Pair, std::less<>>;  // by the module's path

Result<Pairs> pair_tensors(const SafetensorsHeader& header) {
  Pairs pairs;
  for (const auto& [name, info] : header.tensors()) {
    TANDEM_ASSIGN(const TensorName parsed, parse_tensor_name(name));
    Pair& pair = pairs[std::string(parsed.path)];
    const TensorInfo*& slot = parsed.is_a ? pair.a : pair.b;
    if (slot != nullptr) return invalid("tensor '{}' is there under two names", name);
    slot = &info;
  }
  return pairs;
}

Status check_tensor(std::string_view path, std::string_view letter, const TensorInfo* info,
                    std::int64_t rows, std::int64_t cols) {
  if (info == nullptr) {
    return invalid("{} is adapted according to adapter_config.json, but its lora_{} is missing",
                   path, letter);
  }
  if (!info->dtype || *info->dtype == DType::i32) {
    return invalid("lora_{} of {} is {}; it must be F32, F16 or BF16", letter, path,
                   to_string(*info));
  }
  if (info->shape != std::vector{rows, cols}) {
    return invalid(
        "lora_{} of {} is {}; the base and the rank in adapter_config.json ask for [{}, {}]",
        letter, path, to_string(*info), rows, cols);
  }
  return {};
}

// What a tensor without a plan is: of a module that the base lacks, or of one not targeted.
Status explain_extra(std::string_view path, const ModelConfig& config) {
  if (path == "lm_head" || path.ends_with("embed_tokens")) {
    return invalid("there is LoRA on {}: the embedding and the head are not supported", path);
  }
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    for (int m = 0; m < kNumModules; ++m) {
      if (module_path(layer, static_cast<Module>(m)) == path) {
        return invalid("there are tensors for {}, which adapter_config.json does not target", path);
      }
    }
  }
  return invalid("there are tensors for {}, which the base does not have", path);
}

struct Job {
  const PlannedModule* planned;
  const AdapterMatrix* matrix;
  Pair tensors;
  std::uint64_t end;  // of its bytes, padding included
};

template <typename Word>
bool all_finite(const std::byte* data, std::size_t count, Word exponent) {
  std::size_t bad = 0;
  for (std::size_t i = 0; i < count; ++i) {
    Word bits;
    std::memcpy(&bits, data + i * sizeof(Word), sizeof(Word));
    bad += (bits & exponent) == exponent ? 1 : 0;
  }
  return bad == 0;
}

bool all_finite(const std::byte* data, std::size_t count, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return all_finite<std::uint32_t>(data, count, 0x7f800000U);
    case DType::f16:
      return all_finite<std::uint16_t>(data, count, 0x7c00U);
    case DType::bf16:
      return all_finite<std::uint16_t>(data, count, 0x7f80U);
    case DType::i32:
      break;
  }
  TANDEM_CHECK(false, "{} is not a floating type", to_string(dtype));
}

// One thread's memory for what it reads and converts.
struct Scratch {
  std::vector<std::byte> raw;
  std::vector<float> values;
  std::vector<std::byte> rows;
};

Status read_floats(const File& file, const TensorInfo& info, Scratch& scratch) {
  const std::size_t count = (info.end - info.begin) / size_of(*info.dtype);
  scratch.raw.resize(info.end - info.begin);
  scratch.values.resize(count);
  TANDEM_TRY(file.read(info.begin, scratch.raw.data(), scratch.raw.size()));
  convert(*info.dtype, scratch.raw.data(), DType::f32, scratch.values.data(), count);
  return {};
}

class Loader {
 public:
  Loader(const File& file, const ModelConfig& config, Adapter& adapter)
      : file_(file), config_(config), adapter_(adapter) {}

  Status fill(const Job& job, Scratch& scratch) const {
    const std::string path = module_path(job.planned->layer, job.planned->module);
    const AdapterMatrix& m = *job.matrix;
    const auto in = static_cast<std::size_t>(module_in(config_, job.planned->module));
    const auto out = static_cast<std::size_t>(module_out(config_, job.planned->module));
    const auto rank = static_cast<std::size_t>(m.rank);
    const std::size_t element = size_of(adapter_.dtype);

    std::byte* const a = adapter_.bytes.get() + m.a_offset;
    std::byte* const a_end = a + rank * in * element;
    TANDEM_TRY(fill_a(*job.tensors.a, a, scratch));
    std::byte* const b = adapter_.bytes.get() + m.b_offset;
    std::memset(a_end, 0, static_cast<std::size_t>(b - a_end));
    TANDEM_TRY(fill_b(*job.tensors.b, static_cast<float>(job.planned->scale), b, out, rank,
                      static_cast<std::size_t>(m.b_stride), scratch));
    std::byte* const b_end = b + out * static_cast<std::size_t>(m.b_stride) * element;
    std::memset(b_end, 0, static_cast<std::size_t>(adapter_.bytes.get() + job.end - b_end));

    for (const auto& [letter, begin, end] :
         {std::tuple('A', a, a_end), std::tuple('B', b, b_end)}) {
      if (all_finite(begin, static_cast<std::size_t>(end - begin) / element, adapter_.dtype))
        continue;
      return invalid("lora_{} of {} holds a NaN, an infinity, or a value beyond the range of {}",
                     letter, path, to_string(adapter_.dtype));
    }
    return {};
  }

 private:
  Status fill_a(const TensorInfo& info, std::byte* target, Scratch& scratch) const {
    const std::size_t bytes = info.end - info.begin;
    if (*info.dtype == adapter_.dtype) return file_.read(info.begin, target, bytes);
    scratch.raw.resize(bytes);
    TANDEM_TRY(file_.read(info.begin, scratch.raw.data(), bytes));
    convert(*info.dtype, scratch.raw.data(), adapter_.dtype, target, bytes / size_of(*info.dtype));
    return {};
  }

  // The scale goes in while the values are floats, so that they are rounded once.
  Status fill_b(const TensorInfo& info, float scale, std::byte* target, std::size_t out,
                std::size_t rank, std::size_t stride, Scratch& scratch) const {
    TANDEM_TRY(read_floats(file_, info, scratch));
    for (float& value : scratch.values) value *= scale;
    if (stride == rank) {
      convert(DType::f32, scratch.values.data(), adapter_.dtype, target, out * rank);
      return {};
    }
    const std::size_t row = rank * size_of(adapter_.dtype);
    const std::size_t padded_row = stride * size_of(adapter_.dtype);
    scratch.rows.resize(out * row);
    convert(DType::f32, scratch.values.data(), adapter_.dtype, scratch.rows.data(), out * rank);
    for (std::size_t i = 0; i < out; ++i) {
      std::memcpy(target + i * padded_row, scratch.rows.data() + i * row, row);
      std::memset(target + i * padded_row + row, 0, padded_row - row);
    }
    return {};
  }

  const File& file_;
  const ModelConfig& config_;
  Adapter& adapter_;
};

Result<std::vector<Job>> plan_jobs(const std::vector<PlannedModule>& plan, Pairs pairs,
                                   const ModelConfig& config, Adapter& adapter) {
  std::vector<Job> jobs;
  for (const PlannedModule& planned : plan) {
    const std::string path = module_path(planned.layer, planned.module);
    Pair pair;
    if (const auto it = pairs.find(path); it != pairs.end()) {
      pair = it->second;
      pairs.erase(it);
    }
    TANDEM_TRY(check_tensor(path, "A", pair.a, planned.rank, module_in(config, planned.module)));
    TANDEM_TRY(check_tensor(path, "B", pair.b, module_out(config, planned.module), planned.rank));
    const AdapterMatrix& matrix =
        append_matrix(adapter, config, planned.layer, planned.module, planned.rank);
    jobs.push_back({&planned, &matrix, pair, adapter.num_bytes});
  }
  if (!pairs.empty()) return explain_extra(pairs.begin()->first, config);
  return jobs;
}

Status run_jobs(const Loader& loader, const std::vector<Job>& jobs, std::size_t num_bytes) {
  // Less than this is read faster than a thread starts.
  constexpr std::size_t kBytesPerThread = 2 << 20;
  const std::size_t chunk = std::max<std::size_t>(1, jobs.size() * kBytesPerThread / num_bytes);
  std::vector<Status> results(jobs.size());
  parallel_chunks(jobs.size(), std::min(chunk, jobs.size()),
                  [&](std::size_t begin, std::size_t end) {
                    Scratch scratch;
                    for (std::size_t i = begin; i < end; ++i)
                      results[i] = loader.fill(jobs[i], scratch);
                  });
  for (const Status& result : results) TANDEM_TRY(result);
  return {};
}

Result<PeftConfig> read_config(const fs::path& path) {
  TANDEM_ASSIGN(const OrderedJson json, read_json_object<OrderedJson>(path, kMaxConfigBytes));
  Result<PeftConfig> config = parse_peft_config(json);
  if (!config) return config.status().with_context(path.string());
  return config;
}

Status explain_missing_weights(const fs::path& dir, Status status) {
  std::error_code ignored;  // what cannot be looked at is not there
  if (status.code() != StatusCode::not_found || !fs::exists(dir / "adapter_model.bin", ignored)) {
    return status;
  }
  return invalid(
      "{} holds only adapter_model.bin, a pickle, which is never read: save the adapter as "
      "safetensors",
      dir.string());
}

}  // namespace

Result<Adapter> load_peft_adapter(const fs::path& dir, const ModelConfig& config, DType dtype,
                                  const AllocateBytes& allocate) {
  TANDEM_CHECK(dtype != DType::i32);
  TANDEM_ASSIGN(const PeftConfig peft, read_config(dir / "adapter_config.json"));
  Result<std::vector<PlannedModule>> plan = plan_modules(peft, config);
  if (!plan) return plan.status().with_context((dir / "adapter_config.json").string());

  Result<File> file = File::open(dir / "adapter_model.safetensors");
  if (!file) return explain_missing_weights(dir, file.status());
  TANDEM_ASSIGN(const SafetensorsHeader header, SafetensorsHeader::read(*file));

  Adapter adapter;
  adapter.path = dir.string();
  adapter.base_model = peft.base_model;
  adapter.dtype = dtype;
  adapter.layers.resize(static_cast<std::size_t>(config.num_layers));
  const auto load = [&]() -> Status {
    TANDEM_ASSIGN(Pairs pairs, pair_tensors(header));
    TANDEM_ASSIGN(const std::vector<Job> jobs, plan_jobs(*plan, std::move(pairs), config, adapter));
    TANDEM_TRY(allocate_bytes(adapter, allocate));
    return run_jobs(Loader(*file, config, adapter), jobs, adapter.num_bytes);
  };
  if (Status loaded = load(); !loaded) {
    // A file that was cut off names itself already.
    return loaded.message().starts_with(file->path()) ? loaded : loaded.with_context(file->path());
  }
  TANDEM_TRY(set_digest(adapter));
  return adapter;
}

}  // namespace tandem
