#include "engine/loader/peft/peft_folder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/file/folder.h"
#include "base/json/json_release.h"
#include "base/log/log.h"
#include "base/lora_rows.h"
#include "engine/loader/adapter_layout.h"
#include "engine/loader/json.h"
#include "engine/loader/peft/peft_config.h"
#include "engine/loader/peft/peft_score.h"
#include "engine/loader/safetensors/safetensors_header.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

// Elements that are read and converted at a time. A block stays in the cache from one pass to the
// next.
constexpr std::size_t kBlock = 16384;

// The parts "model.layers.0.self_attn.q_proj" and "A" of the name
// "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight". Some tools leave out
// "base_model.model.", and some leave the adapter's name, "default", before ".weight".
enum class PairPart : std::uint8_t { a, b, bias, whole };
struct TensorName {
  std::string_view path;
  PairPart part;
};

Result<TensorName> parse_tensor_name(std::string_view name) {
  constexpr std::string_view kPrefix = "base_model.model.";
  const auto holds = [name](std::string_view part) {
    return name.find(part) != std::string_view::npos;
  };
  if (holds("lora_magnitude_vector")) return invalid("tensor '{}': DoRA is not supported", name);
  std::string_view rest = name;
  if (rest.starts_with(kPrefix)) rest.remove_prefix(kPrefix.size());
  // Removes the ending from `rest` if it is there.
  const auto take = [&rest](std::string_view ending) {
    if (!rest.ends_with(ending)) return false;
    rest.remove_suffix(ending.size());
    return true;
  };
  const bool is_weight = take(".weight");
  const bool is_bias = !is_weight && take(".bias");
  take(".default");
  if (is_bias) {
    if (take(".lora_B")) return TensorName{rest, PairPart::bias};
    return invalid(
        "tensor '{}': biases that replace the base's ('bias': all or lora_only) are not "
        "supported",
        name);
  }
  if (take(is_weight ? ".lora_A" : ".lora_embedding_A")) return TensorName{rest, PairPart::a};
  if (take(is_weight ? ".lora_B" : ".lora_embedding_B")) return TensorName{rest, PairPart::b};
  if (is_weight) {
    for (const std::string_view infix : {".modules_to_save", ".base_layer"}) take(infix);
    const std::string_view module = rest.substr(rest.rfind('.') + 1);
    if (module == "lm_head" || module == "embed_tokens" || rest == kScoreModule) {
      return TensorName{rest, PairPart::whole};
    }
  }
  return invalid("tensor '{}' is not A or B of a LoRA module", name);
}

struct Pair {
  const TensorInfo* a = nullptr;
  const TensorInfo* b = nullptr;
  const TensorInfo* bias = nullptr;
  const TensorInfo* whole = nullptr;  // in place of the base's matrix
  bool planned = false;               // its A and B are
  bool may_be_whole = false;

  const TensorInfo*& part(PairPart which) {
    switch (which) {
      case PairPart::a:
        return a;
      case PairPart::b:
        return b;
      case PairPart::bias:
        return bias;
      case PairPart::whole:
        return whole;
    }
    TANDEM_CHECK(false, "part {}", static_cast<int>(which));
  }
};
using Pairs = std::map<std::string, Pair, std::less<>>;  // key: the module's path

Result<Pairs> pair_tensors(const SafetensorsHeader& header, const ModelSpec& spec) {
  Pairs pairs;
  for (const auto& [name, info] : header.tensors()) {
    TANDEM_ASSIGN(const TensorName parsed, parse_tensor_name(name));
    const std::optional<std::string> path = path_in_text_model(spec, parsed.path);
    if (!path) continue;
    Pair& pair = pairs[*path];
    const TensorInfo*& slot = pair.part(parsed.part);
    if (slot != nullptr) return invalid("tensor '{}' is there under two names", name);
    slot = &info;
  }
  return pairs;
}

// `tensor`: lora_A, lora_B, lora_B.bias or "the weight".
Status check_tensor(std::string_view path, std::string_view tensor, const TensorInfo* info,
                    const std::vector<std::int64_t>& shape) {
  if (info == nullptr) {
    return invalid("{} is adapted according to adapter_config.json, but its {} is missing", path,
                   tensor);
  }
  if (!info->dtype || *info->dtype == DType::i32) {
    return invalid("{} of {} is {}; it must be F32, F16 or BF16", tensor, path, to_string(*info));
  }
  if (info->shape != shape) {
    return invalid("{} of {} is {}; the base and the rank in adapter_config.json ask for [{}]",
                   tensor, path, to_string(*info), fmt::join(shape, ", "));
  }
  return {};
}

// True for k and v of layers that take those of an earlier layer. Older versions of transformers
// have modules there, which they do not use; adapters on them change nothing.
bool is_never_computed(std::string_view path, const ModelSpec& spec) {
  for (std::int64_t layer = 0; layer < spec.num_layers(); ++layer) {
    if (spec.layer(layer).attention.has_keys()) continue;
    for (std::size_t module = 0; module < spec.modules.size(); ++module) {
      const bool is_absent =
          spec.modules[module].place == ModulePlace::layer && module_out(spec, layer, module) == 0;
      if (is_absent && path == module_path(spec, layer, module)) return true;
    }
  }
  return false;
}

// Explains a tensor that is not in the plan: the base lacks its module, or the module is not
// targeted.
Status explain_extra(std::string_view path, const ModelSpec& spec) {
  for (std::int64_t layer = 0; layer < spec.num_layers(); ++layer) {
    for (std::size_t module = 0; module < spec.modules.size(); ++module) {
      if (module_out(spec, layer, module) == 0) continue;
      const std::string fused = fused_module_path(spec, layer, module);
      if (path == module_path(spec, layer, module) || (!fused.empty() && path == fused)) {
        return invalid("there are tensors for {}, which adapter_config.json does not target", path);
      }
    }
  }
  return invalid("there are tensors for {}, which the base does not have", path);
}

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

// The rows of B that belong to a module: [first, first + its output) of `all`.
struct RowsOfB {
  std::int64_t first = 0;
  std::int64_t all = 0;
};

RowsOfB rows_of_b(const ModelSpec& spec, const PlannedModule& planned) {
  const auto stored = [&](std::size_t module) {
    return output_of_module(spec, planned.layer, module).stored;
  };
  if (!planned.fused) return {0, stored(planned.module)};
  RowsOfB rows;
  const Site site = spec.modules[planned.module].site;
  for (std::size_t m = spec.modules.first_of(site); m < spec.modules.end_of(site); ++m) {
    if (m == planned.module) rows.first = rows.all;
    rows.all += stored(m);
  }
  return rows;
}

// A whole embedding and a whole head have one vocabulary.
Status check_one_vocabulary(const Pairs& pairs, const ModelSpec& spec) {
  const TensorInfo* first = nullptr;
  for (std::size_t m = 0; m < spec.modules.size(); ++m) {
    if (!spec.modules[m].is_whole()) continue;
    const auto it = pairs.find(module_path(spec, 0, m));
    const TensorInfo* const info = it == pairs.end() ? nullptr : it->second.whole;
    if (info == nullptr || info->shape.empty()) continue;
    if (first != nullptr && info->shape[0] != first->shape[0]) {
      return invalid("the adapter's embedding has {} rows and its head {}", first->shape[0],
                     info->shape[0]);
    }
    first = info;
  }
  return {};
}

Result<std::vector<PeftJob>> plan_jobs(const std::vector<PlannedModule>& plan, Pairs pairs,
                                       const ModelSpec& spec, bool has_bias, Adapter& adapter) {
  TANDEM_TRY(check_one_vocabulary(pairs, spec));
  std::vector<PeftJob> jobs;
  for (const PlannedModule& planned : plan) {
    Pair pair;
    const bool is_whole = spec.modules[planned.module].is_whole();
    if (const auto it = pairs.find(planned.path); it != pairs.end()) {
      (is_whole ? it->second.may_be_whole : it->second.planned) = true;
      pair = it->second;
    } else if (!planned.fused && !spec.modules[planned.module].fused_path.empty()) {
      continue;  // PEFT passes over the part of a fused module, which its model does not have
    }
    const RowsOfB rows = rows_of_b(spec, planned);
    const ModuleSide in = input_of_module(spec, planned.layer, planned.module);
    const bool biased = has_bias && !is_whole;
    if (is_whole) {
      if (pair.whole == nullptr && !planned.saved) continue;
      TANDEM_TRY(check_tensor(planned.path, "the weight", pair.whole, {rows.all, planned.rank}));
      pair.a = pair.b = pair.whole;  // A has no columns
    } else {
      TANDEM_TRY(check_tensor(planned.path, "lora_A", pair.a, {planned.rank, in.stored}));
      TANDEM_TRY(check_tensor(planned.path, "lora_B", pair.b, {rows.all, planned.rank}));
      if (biased) TANDEM_TRY(check_tensor(planned.path, "lora_B.bias", pair.bias, {rows.all}));
      if (!has_bias && pair.bias != nullptr) {
        return invalid("lora_B of {} has a bias, and 'lora_bias' of adapter_config.json is off",
                       planned.path);
      }
    }
    const AdapterMatrix& matrix =
        append_matrix(adapter, spec, planned.layer, planned.module, planned.rank, biased);
    jobs.push_back(
        {.layer = static_cast<std::int32_t>(planned.layer),
         .module = static_cast<std::uint16_t>(planned.module),
         .a_type = *pair.a->dtype,
         .b_type = *pair.b->dtype,
         .bias_type = biased ? *pair.bias->dtype : DType::f32,
         .scale = static_cast<float>(planned.scale),
         .in = in,
         .out = output_of_module(spec, planned.layer, planned.module),
         .spread_in = module_in(spec, planned.layer, planned.module),
         .spread_out = module_out(spec, planned.layer, planned.module),
         .a_begin = pair.a->begin,
         .b_begin = pair.b->begin +
                    static_cast<std::uint64_t>(rows.first * planned.rank) * size_of(*pair.b->dtype),
         .bias_begin = biased ? pair.bias->begin + static_cast<std::uint64_t>(rows.first) *
                                                       size_of(*pair.bias->dtype)
                              : 0,
         .end = adapter.num_bytes,
         .matrix = matrix});
  }
  if (jobs.empty()) return invalid("the adapter adapts no module of the base");
  for (const auto& [path, pair] : pairs) {
    const bool is_lora = pair.a != nullptr || pair.b != nullptr || pair.bias != nullptr;
    if (pair.whole != nullptr && !pair.may_be_whole) return explain_extra(path, spec);
    if (is_lora && !pair.planned && !is_never_computed(path, spec)) {
      return explain_extra(path, spec);
    }
  }
  return jobs;
}

Result<PeftConfig> read_config(const File& file) {
  TANDEM_ASSIGN(const std::string text, read_text(file, kMaxPeftConfigBytes));
  Result<OrderedJson> json = parse_json_object<OrderedJson>(text);
  if (!json) return json.status().with_context(file.path());
  const EmptiedFromLeaves at_end(*json);
  Result<PeftConfig> config = parse_peft_config(*json);
  if (!config) return config.status().with_context(file.path());
  return config;
}

// Logs a warning about `names`, formatted by `what`. The names are escaped as JSON, so that they
// cannot inject log lines. Each warning is logged once, because a folder is read many times.
void warn_once(fmt::format_string<const std::string&> what, const std::vector<std::string>& names) {
  constexpr std::size_t kMaxTold = 256;  // a limit, because the names are untrusted
  constexpr std::size_t kMaxShown = 100;
  static std::mutex mutex;
  static std::set<std::string> told;
  for (const std::string& name : names) {
    const std::string shown =
        Json(name.substr(0, kMaxShown)).dump(-1, ' ', true, Json::error_handler_t::replace);
    const std::string text = fmt::format(what, shown);
    {
      const std::lock_guard lock(mutex);
      if (told.size() >= kMaxTold) return;
      if (!told.insert(text).second) continue;
    }
    log::warning("{}: {} (told once)", kPeftConfigName, text);
  }
}

Status explain_missing_weights(const Folder& opened, Status status) {
  if (status.code() != StatusCode::not_found || !opened.holds("adapter_model.bin")) {
    return status;
  }
  return invalid(
      "the folder holds only adapter_model.bin, a pickle, which is never read: save the adapter as "
      "safetensors");
}

}  // namespace

// The identities are taken before anything is read, so that they cannot stand for older bytes.
Result<PeftFolder> PeftFolder::open(const fs::path& dir, const ModelSpec& spec, DType dtype,
                                    const LinkRule& links,
                                    std::shared_ptr<const FileProgress> writing) {
  TANDEM_CHECK(dtype != DType::i32);
  TANDEM_ASSIGN(const Folder opened, Folder::open(dir));
  TANDEM_ASSIGN(File config_file, opened.open_file(kPeftConfigName, links));
  auto source = std::make_shared<PeftSource>();
  TANDEM_ASSIGN(source->config, config_file.identity());
  TANDEM_ASSIGN(const PeftConfig peft, read_config(config_file));
  Result<std::vector<PlannedModule>> plan = plan_modules(peft, spec);
  if (!plan) return plan.status().with_context(config_file.path());
  warn_once("the setting {} is not known and ignored", peft.ignored);
  warn_once("'target_modules' names {}, which the base does not have: it is passed over",
            targets_not_in(spec, peft));

  Result<File> weights = opened.open_file(kPeftWeightsName, links);
  if (!weights) return explain_missing_weights(opened, weights.status());
  if (writing != nullptr) weights->follow(std::move(writing));
  TANDEM_ASSIGN(source->weights, weights->identity());
  TANDEM_ASSIGN(const SafetensorsHeader header, SafetensorsHeader::read(*weights));

  PeftFolder folder(std::move(config_file), *std::move(weights), dtype);
  Adapter& adapter = folder.adapter_;
  adapter.path = dir.string();
  adapter.base_model = peft.base_model;
  adapter.dtype = dtype;
  adapter.invocation = peft.invocation;
  adapter.layers = AdapterLayers(spec.num_layers(), spec.modules.size());
  Result<Pairs> pairs = pair_tensors(header, spec);
  if (!pairs) return folder.with_path(pairs.status());
  // The score head is no module of the layers, so it is taken out of their tensors.
  const auto head = pairs->find(kScoreModule);
  const TensorInfo* const saved =
      head == pairs->end() ? nullptr : std::exchange(head->second.whole, nullptr);
  auto score = read_peft_score(saved, peft, spec, folder.weights_);
  if (!score) return folder.with_path(score.status());
  adapter.score = *std::move(score);
  Result<std::vector<PeftJob>> jobs =
      plan_jobs(*plan, *std::move(pairs), spec, peft.lora_bias, adapter);
  if (!jobs) return folder.with_path(jobs.status());
  source->jobs = *std::move(jobs);
  folder.source_ = std::move(source);
  return folder;
}

std::optional<PeftFolder> PeftFolder::reopen(const fs::path& dir,
                                             std::shared_ptr<const PeftSource> source, DType dtype,
                                             const LinkRule& links) {
  const Result<Folder> opened = Folder::open(dir);
  if (!opened) return std::nullopt;
  Result<File> config = opened->open_file(kPeftConfigName, links);
  if (!config) return std::nullopt;
  Result<File> weights = opened->open_file(kPeftWeightsName, links);
  if (!weights) return std::nullopt;
  PeftFolder folder(*std::move(config), *std::move(weights), dtype);
  folder.source_ = std::move(source);
  if (!folder.is_unchanged()) return std::nullopt;
  return folder;
}

bool PeftFolder::is_unchanged() const {
  const Result<FileIdentity> config = config_.identity();
  const Result<FileIdentity> weights = weights_.identity();
  return config && weights && *config == source_->config && *weights == source_->weights;
}

std::shared_ptr<const PeftSource> PeftFolder::source(std::int64_t now_ns) const {
  const bool known = source_->config.vouches(now_ns) && source_->weights.vouches(now_ns);
  return known && is_unchanged() ? source_ : nullptr;
}

// The message for a truncated file names it already.
Status PeftFolder::with_path(const Status& status) const {
  return status.message().starts_with(weights_.path()) ? status
                                                       : status.with_context(weights_.path());
}

Status PeftFolder::fill(const PeftJob& job, std::byte* bytes, PeftScratch& scratch) const {
  const std::size_t element = size_of(dtype_);
  std::byte* const a = bytes + job.matrix.a_offset;
  std::byte* const b = bytes + job.matrix.b_offset;
  std::byte* const a_end = a + static_cast<std::size_t>(job.matrix.rank * job.spread_in) * element;
  std::byte* const b_end =
      b + static_cast<std::size_t>(job.spread_out * job.matrix.b_stride) * element;
  const auto fill_spread = [&](const ModuleSide& side, std::int64_t columns, std::int64_t rows,
                               std::int64_t unit, std::byte* to, const auto& fill_stored) {
    if (side.spread.empty()) return fill_stored(to);
    const auto unit_bytes = static_cast<std::size_t>(unit) * element;
    scratch.stored.resize(static_cast<std::size_t>(rows * side.stored) * unit_bytes);
    TANDEM_TRY(fill_stored(scratch.stored.data()));
    std::memset(to, 0, static_cast<std::size_t>(rows * columns) * unit_bytes);
    for (std::int64_t row = 0; row < rows; ++row) {
      copy_spread(side.spread, unit_bytes,
                  scratch.stored.data() + static_cast<std::size_t>(row * side.stored) * unit_bytes,
                  to + static_cast<std::size_t>(row * columns) * unit_bytes);
    }
    return Status();
  };
  TANDEM_TRY(fill_spread(job.in, job.spread_in, job.matrix.rank, 1, a,
                         [&](std::byte* to) { return fill_a(job, to, scratch); }));
  std::memset(a_end, 0, static_cast<std::size_t>(b - a_end));
  TANDEM_TRY(fill_spread(job.out, job.spread_out, 1, job.matrix.b_stride, b,
                         [&](std::byte* to) { return fill_b(job, to, scratch); }));
  std::memset(b_end, 0, static_cast<std::size_t>(bytes + job.end - b_end));
  return {};
}

Status PeftFolder::fill_a(const PeftJob& job, std::byte* target, PeftScratch& scratch) const {
  const auto count = static_cast<std::size_t>(job.matrix.rank * job.in.stored);
  const std::size_t from = size_of(job.a_type);
  if (job.a_type == dtype_) return with_path(weights_.read(job.a_begin, target, count * from));
  scratch.raw.resize(kBlock * from);
  for (std::size_t first = 0; first < count; first += kBlock) {
    const std::size_t block = std::min(kBlock, count - first);
    TANDEM_TRY(
        with_path(weights_.read(job.a_begin + first * from, scratch.raw.data(), block * from)));
    convert(job.a_type, scratch.raw.data(), dtype_, target + first * size_of(dtype_), block);
  }
  return {};
}

// The scale is applied while the values are floats, so that they are rounded once. Values that need
// no conversion are read directly into the target and changed only by a scale.
Status PeftFolder::fill_b(const PeftJob& job, std::byte* target, PeftScratch& scratch) const {
  const auto rows = static_cast<std::size_t>(job.out.stored);
  const auto rank = static_cast<std::size_t>(job.matrix.rank);
  const auto stride = static_cast<std::size_t>(job.matrix.b_stride);
  const std::size_t from = size_of(job.b_type);
  const std::size_t element = size_of(dtype_);
  const bool in_place = job.b_type == dtype_ && stride == rank;
  if (in_place && job.scale == 1) {
    return with_path(weights_.read(job.b_begin, target, rows * rank * from));
  }
  if (job.matrix.has_bias) {
    const std::size_t bytes = rows * size_of(job.bias_type);
    scratch.raw.resize(bytes);
    scratch.biases.resize(rows);
    TANDEM_TRY(with_path(weights_.read(job.bias_begin, scratch.raw.data(), bytes)));
    convert(job.bias_type, scratch.raw.data(), DType::f32, scratch.biases.data(), rows);
    for (float& bias : scratch.biases) bias *= job.scale;
  }
  const std::size_t block = std::max<std::size_t>(1, kBlock / rank);
  if (!in_place) scratch.raw.resize(block * rank * from);
  scratch.values.resize(block * rank);
  for (std::size_t first = 0; first < rows; first += block) {
    const std::size_t count = std::min(block, rows - first);
    std::byte* to = target + first * stride * element;
    std::byte* const raw = in_place ? to : scratch.raw.data();
    TANDEM_TRY(
        with_path(weights_.read(job.b_begin + first * rank * from, raw, count * rank * from)));
    convert(job.b_type, raw, DType::f32, scratch.values.data(), count * rank);
    for (std::size_t i = 0; i < count * rank; ++i) scratch.values[i] *= job.scale;
    if (stride == rank) {
      convert(DType::f32, scratch.values.data(), dtype_, to, count * rank);
      continue;
    }
    for (std::size_t row = 0; row < count; ++row, to += stride * element) {
      convert(DType::f32, scratch.values.data() + row * rank, dtype_, to, rank);
      std::memset(to + rank * element, 0, (stride - rank) * element);
      if (!job.matrix.has_bias) continue;
      const std::size_t column = stride - static_cast<std::size_t>(lora_group(dtype_));
      convert(DType::f32, &scratch.biases[first + row], dtype_, to + column * element, 1);
    }
  }
  return {};
}

Status PeftFolder::check_finite(const PeftJob& job, const std::byte* bytes,
                                const ModelSpec& spec) const {
  const auto a = static_cast<std::size_t>(job.matrix.rank * job.spread_in);
  const auto b = static_cast<std::size_t>(job.spread_out * job.matrix.b_stride);
  for (const auto& [letter, begin, count] :
       {std::tuple('A', job.matrix.a_offset, a), std::tuple('B', job.matrix.b_offset, b)}) {
    if (all_finite(bytes + begin, count, dtype_)) continue;
    if (spec.modules[job.module].is_whole()) {
      return with_path(
          invalid("the weight of {} holds a NaN, an infinity, or a value beyond the range of {}",
                  module_path(spec, job.layer, job.module), to_string(dtype_)));
    }
    return with_path(
        invalid("lora_{} of {} holds a NaN, an infinity, or a value beyond the range of {}", letter,
                module_path(spec, job.layer, job.module), to_string(dtype_)));
  }
  return {};
}

}  // namespace tandem
