#include "engine/loader/quantised_modules.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/text/shown_text.h"
#include "engine/loader/quantised/packed_matrix.h"
#include "engine/loader/quantised/packed_rows.h"
#include "engine/loader/thread_team.h"

namespace tandem {
namespace {

constexpr std::string_view kWeight = ".weight";
constexpr std::string_view kTakeAnother =
    "take another copy of the checkpoint, or one that is quantised otherwise";
// Bytes that a thread fetches at once.
constexpr std::size_t kFetchBytes = std::size_t{2} << 20;
// Elements that a thread translates at once.
constexpr std::int64_t kTaskElements = std::int64_t{1} << 20;
// The fewest rows of a task, because transposed formats are read in strips of as many words.
constexpr std::int64_t kTaskRows = 64;

std::string_view module_of(std::string_view name) {
  return name.substr(0, name.size() - kWeight.size());
}
bool is_float(const TensorInfo& info) {
  return info.dtype && *info.dtype != DType::i32;
}

}  // namespace

// A module's matrix, and the tensors that it reads.
struct QuantisedModules::Opened {
  std::unique_ptr<PackedMatrix> matrix;
  std::vector<CheckpointPlace> places;
};

bool QuantisedModules::has(std::string_view module, std::string_view suffix) const {
  return places_.find(std::string(module) + std::string(suffix)) != places_.end();
}

bool QuantisedModules::hold(std::string_view name) const {
  if (!scheme_ || !name.ends_with(kWeight)) return false;
  const std::string_view module = module_of(name);
  for (const std::string_view packed : {".qweight", ".weight_packed", ".weight.absmax"}) {
    if (has(module, packed)) return true;
  }
  const auto it = places_.find(name);
  return it != places_.end() && !is_float(*it->second.info);
}

Result<QuantisedModules::Opened> QuantisedModules::open(std::string_view name) const {
  Opened opened;
  const std::string module(module_of(name));
  std::string path = "the checkpoint";
  const auto find = [&](std::string_view tensor) -> std::optional<StoredTensor> {
    const auto it = places_.find(tensor);
    if (it == places_.end()) return std::nullopt;
    const auto& [file, info] = it->second;
    path = file->path();
    opened.places.push_back(it->second);
    return StoredTensor{info->type_name, info->shape, file->bytes(*info)};
  };
  const auto open_it = [&]() -> Status {
    const auto plain = places_.find(name);
    const bool is_packed = has(module, ".qweight") || has(module, ".weight_packed");
    if (is_packed && plain != places_.end()) {
      return invalid("it has weights that are quantised and others that are not");
    }
    TANDEM_ASSIGN(const std::optional<ModuleScheme> scheme, scheme_->of(module));
    if (!scheme) {
      return invalid(
          "it is quantised, but config.json does not say how: it is skipped there, or no "
          "target of a group names it");
    }
    TANDEM_ASSIGN(opened.matrix, open_packed(*scheme, ModuleTensors(module, find)));
    return {};
  };
  const Status status = open_it();
  if (status) return opened;
  return invalid("{}: module '{}', quantised by {}: {}; {}", path, shown_text(module),
                 scheme_->method(), status.message(), kTakeAnother);
}

Result<QuantisedModules::Opened> QuantisedModules::open_as(
    std::string_view name, std::span<const std::int64_t> shape) const {
  TANDEM_ASSIGN(Opened opened, open(name));
  const std::array<std::int64_t, 2> stored = {opened.matrix->rows(), opened.matrix->cols()};
  if (std::ranges::equal(stored, shape)) return opened;
  return invalid("module '{}' is quantised as [{}], config.json asks for [{}]", module_of(name),
                 fmt::join(stored, ", "), fmt::join(shape, ", "));
}

template <typename Use>
Status QuantisedModules::read_rows(std::string_view name, const Opened& opened, std::int64_t first,
                                   std::int64_t count, const Use& use) const {
  const PackedMatrix& matrix = *opened.matrix;
  const auto bytes_of_part = [&](const CheckpointPlace& place) {
    return matrix.bytes_of_rows(place.file->bytes(*place.info), first, count);
  };
  for (const CheckpointPlace& place : opened.places) {
    const std::span<const std::byte> bytes = bytes_of_part(place);
    parallel_chunks(bytes.size(), kFetchBytes, [&](std::size_t from, std::size_t to) {
      place.file->mapping().fetch(bytes.subspan(from, to - from));
    });
  }
  const auto chunk = static_cast<std::size_t>(std::max(kTaskRows, kTaskElements / matrix.cols()));
  std::mutex mutex;
  Status first_failure;  // guarded by mutex
  parallel_chunks(static_cast<std::size_t>(count), chunk, [&](std::size_t from, std::size_t to) {
    const Result<QuantisedMatrix> part =
        matrix.read(first + static_cast<std::int64_t>(from), static_cast<std::int64_t>(to - from));
    if (part) return use(static_cast<std::int64_t>(from), *part);
    const std::lock_guard lock(mutex);
    if (first_failure.ok()) first_failure = part.status();
  });
  if (!first_failure.ok()) {
    return invalid("module '{}', quantised by {}: {}; {}", shown_text(module_of(name)),
                   scheme_->method(), first_failure.message(), kTakeAnother);
  }
  // Another part that shares pages maps them again, which costs less than its translation.
  for (const CheckpointPlace& place : opened.places) {
    place.file->mapping().drop(bytes_of_part(place));
  }
  return {};
}

Status QuantisedModules::read_part(std::string_view name, std::span<const std::int64_t> shape,
                                   DType dtype, std::size_t begin, std::size_t count,
                                   void* target) const {
  TANDEM_ASSIGN(const Opened opened, open_as(name, shape));
  const auto cols = static_cast<std::size_t>(opened.matrix->cols());
  const std::size_t elements = static_cast<std::size_t>(opened.matrix->rows()) * cols;
  begin = std::min(begin, elements);
  const std::size_t end = begin + std::min(count, elements - begin);
  if (begin == end) return {};
  const std::size_t first_row = begin / cols;
  const std::size_t rows = (end + cols - 1) / cols - first_row;
  const auto convert_rows = [&](std::int64_t first, const QuantisedMatrix& part) {
    const std::int64_t part_rows = std::visit([](const auto& m) { return m.rows; }, part);
    std::vector<float> row(cols);
    for (std::int64_t r = 0; r < part_rows; ++r) {
      dequantise(part, r, 1, row.data());
      const std::size_t at =
          (first_row + as_index(first + r)) * cols;  // of the row's first element
      const std::size_t skipped = std::max(begin, at) - at;
      const std::size_t taken = std::min(end - at, cols) - skipped;
      convert(DType::f32, row.data() + skipped, dtype,
              static_cast<std::byte*>(target) + (at + skipped - begin) * size_of(dtype), taken);
    }
  };
  return read_rows(name, opened, static_cast<std::int64_t>(first_row),
                   static_cast<std::int64_t>(rows), convert_rows);
}

std::optional<PackedForm> QuantisedModules::form_of(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto known = forms_.find(name);
  if (known != forms_.end()) return known->second;
  std::optional<PackedForm> form;
  if (const Result<Opened> opened = open(name)) form = packed_form(opened->matrix->without_rows());
  return forms_.emplace(name, std::move(form)).first->second;
}

Status QuantisedModules::read_packed(std::string_view name, std::span<const std::int64_t> shape,
                                     std::int64_t first, std::int64_t count,
                                     const PackedArrays& target) const {
  TANDEM_ASSIGN(const Opened opened, open_as(name, shape));
  const std::optional<PackedForm> packed = form_of(name);
  if (!packed) return invalid("'{}' has no packed form", name);
  return read_rows(name, opened, first, count, [&](std::int64_t row, const QuantisedMatrix& part) {
    pack(part, rows_from(target, packed->form, opened.matrix->cols(), row));
  });
}

Status QuantisedModules::check_bias(const std::string& module) const {
  const auto bias = places_.find(module + ".bias");
  if (bias == places_.end()) return {};
  const auto& [file, info] = bias->second;
  if (is_float(*info)) {
    const std::span<const std::byte> bytes = file->bytes(*info);
    const std::size_t size = size_of(*info->dtype);
    std::vector<std::byte> aligned(bytes.begin(), bytes.end());
    std::vector<float> values(bytes.size() / size);
    convert(*info->dtype, aligned.data(), DType::f32, values.data(), values.size());
    if (std::ranges::all_of(values, [](float value) { return value == 0; })) return {};
  }
  return invalid("{}: '{}' is not 0, and the model has no bias there", file->path(),
                 shown_text(bias->first));
}

Status QuantisedModules::check_plain(const std::string& name) const {
  const auto it = places_.find(name);
  if (it == places_.end()) return {};
  for (const std::string_view scale : {"_scale", "_scale_inv"}) {
    if (!has(name, scale)) continue;
    return invalid("{}: '{}' is {}, and yet there are scales in '{}{}'; {}",
                   it->second.file->path(), shown_text(name), to_string(*it->second.info),
                   shown_text(name), scale, kTakeAnother);
  }
  return {};
}

Status QuantisedModules::check(const std::set<std::string, std::less<>>& used) const {
  if (!scheme_) return {};
  constexpr std::string_view kHead = "lm_head.weight";
  if (!used.contains(kHead) && hold(kHead)) {
    return invalid(
        "config.json ties the head to the embedding ('tie_word_embeddings'), and yet module "
        "'lm_head' is quantised on its own, by {}; {}",
        scheme_->method(), kTakeAnother);
  }
  for (const std::string& name : used) {
    if (!name.ends_with(kWeight)) continue;
    if (!hold(name)) {
      TANDEM_TRY(check_plain(name));
      continue;
    }
    TANDEM_TRY(open(name).status());
    const std::string module(module_of(name));
    if (!used.contains(module + ".bias")) TANDEM_TRY(check_bias(module));
  }
  return {};
}

std::uint64_t QuantisedModules::bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [name, place] : places_) {
    // Each tensor belongs to the module before its last dot, or before ".weight.".
    const std::size_t inner = name.find(".weight.");
    const std::string_view module =
        std::string_view(name).substr(0, std::min(inner, name.rfind('.')));
    if (hold(std::string(module) + std::string(kWeight)))
      sum += place.info->end - place.info->begin;
  }
  return sum;
}

}  // namespace tandem
