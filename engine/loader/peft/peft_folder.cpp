#include "engine/loader/peft/peft_folder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
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
#include "engine/loader/peft/peft_jobs.h"
#include "engine/loader/peft/peft_score.h"
#include "engine/loader/safetensors/safetensors_header.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

// Elements that are read and converted at a time. A block stays in the cache from one pass to the
// next.
constexpr std::size_t kBlock = 16384;

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
  const TensorInfo* saved = nullptr;
  Result<std::vector<PeftJob>> jobs = plan_jobs(header, peft, *plan, spec, adapter, saved);
  if (!jobs) return folder.with_path(jobs.status());
  auto score = read_peft_score(saved, peft, spec, folder.weights_);
  if (!score) return folder.with_path(score.status());
  adapter.score = *std::move(score);
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
  if (!job.tokens.empty()) return fill_tokens(job, bytes, scratch);
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
  if (job.spread_in > 0) {
    TANDEM_TRY(fill_spread(job.in, job.spread_in, job.matrix.rank, 1, a,
                           [&](std::byte* to) { return fill_a(job, to, scratch); }));
  }
  std::memset(a_end, 0, static_cast<std::size_t>(b - a_end));
  TANDEM_TRY(fill_spread(job.out, job.spread_out, 1, job.matrix.b_stride, b, [&](std::byte* to) {
    return job.is_vector()      ? fill_vector(job, to, scratch)
           : job.spread_in == 0 ? fill_whole(job, to, scratch)
                                : fill_b(job, to, scratch);
  }));
  std::memset(b_end, 0, static_cast<std::size_t>(bytes + job.end - b_end));
  return {};
}

// Rows that follow one another in the file are read together.
Status PeftFolder::fill_tokens(const PeftJob& job, std::byte* bytes, PeftScratch& scratch) const {
  const std::size_t element = size_of(dtype_);
  const auto width = static_cast<std::size_t>(job.spread_in);
  std::byte* to = bytes + job.matrix.a_offset;
  for (std::size_t i = 0; i < job.tokens.size();) {
    const TokenRow& first = job.tokens[i];
    const std::size_t row_bytes = width * size_of(first.type);
    std::size_t rows = 1;
    for (; i + rows < job.tokens.size() && (rows + 1) * width <= kBlock; ++rows) {
      const TokenRow& next = job.tokens[i + rows];
      if (next.type != first.type || next.begin != first.begin + rows * row_bytes) break;
    }
    scratch.raw.resize(rows * row_bytes);
    TANDEM_TRY(with_path(weights_.read(first.begin, scratch.raw.data(), rows * row_bytes)));
    convert(first.type, scratch.raw.data(), dtype_, to, rows * width);
    to += rows * width * element;
    i += rows;
  }
  std::byte* id = bytes + job.matrix.b_offset;
  std::memset(to, 0, static_cast<std::size_t>(id - to));
  for (const TokenRow& row : job.tokens) {
    std::memcpy(id, &row.token, sizeof(row.token));
    id += sizeof(row.token);
  }
  std::memset(id, 0, static_cast<std::size_t>(bytes + job.end - id));
  return {};
}

Status PeftFolder::fill_vector(const PeftJob& job, std::byte* target, PeftScratch& scratch) const {
  const auto count = static_cast<std::size_t>(job.out.stored);
  scratch.raw.resize(count * size_of(job.b_type));
  scratch.values.resize(count);
  TANDEM_TRY(with_path(weights_.read(job.b_begin, scratch.raw.data(), scratch.raw.size())));
  convert(job.b_type, scratch.raw.data(), DType::f32, scratch.values.data(), count);
  for (float& value : scratch.values) value += job.added;
  std::memcpy(target, scratch.values.data(), count * sizeof(float));
  return {};
}

// Values that need no conversion are read directly into the target.
Status PeftFolder::fill_whole(const PeftJob& job, std::byte* target, PeftScratch& scratch) const {
  const auto rows = static_cast<std::size_t>(job.out.stored);
  const auto columns = static_cast<std::size_t>(job.in.stored);
  const std::size_t from = size_of(job.b_type);
  const std::size_t element = size_of(dtype_);
  const std::size_t row_bytes = static_cast<std::size_t>(job.matrix.b_stride) * element;
  if (job.b_type == dtype_ && row_bytes == columns * element && job.in.spread.empty()) {
    return with_path(weights_.read(job.b_begin, target, rows * row_bytes));
  }
  SpreadRuns runs = job.in.spread;
  if (runs.empty()) runs = {{0, 0, job.in.stored}};
  const std::size_t block = std::max<std::size_t>(1, kBlock / columns);
  for (std::size_t first = 0; first < rows; first += block) {
    const std::size_t count = std::min(block, rows - first);
    scratch.raw.resize(count * columns * from);
    TANDEM_TRY(with_path(weights_.read(job.b_begin + first * columns * from, scratch.raw.data(),
                                       scratch.raw.size())));
    std::byte* const to = target + first * row_bytes;
    std::memset(to, 0, count * row_bytes);
    for (std::size_t row = 0; row < count; ++row) {
      for (const SpreadRun& run : runs) {
        convert(job.b_type,
                scratch.raw.data() + (row * columns + static_cast<std::size_t>(run.from)) * from,
                dtype_, to + row * row_bytes + static_cast<std::size_t>(run.to) * element,
                static_cast<std::size_t>(run.count));
      }
    }
  }
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
    if (letter == 'B' && !job.tokens.empty()) continue;  // ids
    const DType dtype = job.is_vector() ? DType::f32 : dtype_;
    const std::size_t elements = job.is_vector() ? static_cast<std::size_t>(job.spread_out) : count;
    if (all_finite(bytes + begin, letter == 'A' ? count : elements, dtype)) continue;
    if (const AdaptedModule& row = spec.modules[job.module]; !row.is_lora()) {
      return with_path(
          invalid("the {} of {} holds a NaN, an infinity, or a value beyond the range of {}",
                  is_bias(row.site) ? "bias" : "weight", module_path(spec, job.layer, job.module),
                  to_string(dtype)));
    }
    return with_path(
        invalid("lora_{} of {} holds a NaN, an infinity, or a value beyond the range of {}", letter,
                module_path(spec, job.layer, job.module), to_string(dtype_)));
  }
  return {};
}

}  // namespace tandem
