#include "engine/loader/gguf_checkpoint.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/text/shown_text.h"
#include "engine/loader/gguf/gguf_config.h"
#include "engine/loader/gguf/gguf_model.h"
#include "engine/loader/gguf/gguf_packing.h"
#include "engine/loader/quantised/packed_rows.h"
#include "engine/loader/thread_team.h"

namespace tandem {
namespace {

// As many elements as make the cost of starting a thread negligible.
constexpr std::size_t kChunkElements = std::size_t{1} << 20;
// Elements converted at once, by way of f32: whole blocks of every type.
constexpr std::size_t kRun = 4096;

// A tensor as rows of blocks, and the order of its rows.
class Rows {
 public:
  // `interleaved`: see interleaved_heads().
  Rows(const GgufTensor& tensor, std::span<const std::byte> bytes, std::int64_t interleaved)
      : type_(*tensor.type),
        bytes_(bytes),
        cols_(static_cast<std::size_t>(
            interleaved > 0 && tensor.shape.size() == 1 ? 1 : tensor.shape.back())) {
    const std::size_t rows = size() / cols_;
    head_ = interleaved > 0 ? rows / static_cast<std::size_t>(interleaved) : 1;
  }

  std::size_t size() const { return bytes_.size() / type_.bytes * type_.elements; }

  // The bytes that hold elements [begin, end), and maybe others.
  std::span<const std::byte> around(std::size_t begin, std::size_t end) const {
    const std::size_t unit = head_ * cols_;
    const std::size_t first = head_ == 1 ? begin : begin / unit * unit;
    const std::size_t last = head_ == 1 ? end : (end + unit - 1) / unit * unit;
    const std::size_t from = first / type_.elements * type_.bytes;
    const std::size_t to = (last + type_.elements - 1) / type_.elements * type_.bytes;
    return bytes_.subspan(from, std::min(to, bytes_.size()) - from);
  }

  // Writes row `row` in its type's form.
  void pack_row(std::int64_t row, const PackedArrays& target) const {
    const std::size_t blocks = cols_ / type_.elements;
    const std::size_t stored = stored_row(static_cast<std::size_t>(row));
    pack_gguf_row(type_, bytes_.data() + stored * blocks * type_.bytes, blocks, target);
  }

  // Converts elements [begin, end) to `dtype`.
  void convert_to(DType dtype, std::size_t begin, std::size_t end, std::byte* target) const {
    alignas(16) float run[kRun];
    while (begin < end) {
      const std::size_t in_row = begin % cols_;
      const std::size_t stored = stored_row(begin / cols_) * cols_ + in_row;
      const std::size_t in_block = stored % type_.elements;
      const std::size_t count = std::min({end - begin, cols_ - in_row, kRun - in_block});
      const std::size_t blocks = (in_block + count + type_.elements - 1) / type_.elements;
      type_.to_float(bytes_.data() + stored / type_.elements * type_.bytes, blocks, run);
      // Floats of any address are converted, and `run` is aligned to floats throughout.
      convert(DType::f32, run + in_block, dtype, target, count);
      target += count * size_of(dtype);
      begin += count;
    }
  }

 private:
  // Elements i and i + d/2 of a head are neighbours in the file.
  std::size_t stored_row(std::size_t row) const {
    if (head_ == 1) return row;
    const std::size_t at = row % head_;
    const std::size_t half = head_ / 2;
    return row - at + at % half * 2 + at / half;
  }

  const GgufType& type_;
  std::span<const std::byte> bytes_;
  std::size_t cols_;
  std::size_t head_ =
      1;  // rows of a head whose pairs are neighbours; 1: the order is the usual one
};

class GgufCheckpoint final : public WeightSource {
 public:
  explicit GgufCheckpoint(GgufModel model) : model_(std::move(model)) {}

  Status look_for_interleaved() {
    for (const auto& [name, place] : model_.tensors()) {
      TANDEM_ASSIGN(const std::int64_t heads, interleaved_heads(model_, name));
      if (heads > 0) interleaved_[name] = heads;
    }
    return {};
  }

  bool has(std::string_view name) const override { return model_.tensor(name) != nullptr; }

  Status read_part(std::string_view name, std::span<const std::int64_t> shape, DType dtype,
                   std::size_t begin, std::size_t count, void* target) const override {
    TANDEM_ASSIGN(const Rows rows, rows_of(name, shape));
    begin = std::min(begin, rows.size());
    count = std::min(count, rows.size() - begin);
    const auto convert = [&](std::size_t first, std::size_t end) {
      rows.convert_to(dtype, begin + first, begin + end,
                      static_cast<std::byte*>(target) + first * size_of(dtype));
    };
    read_chunks(name, rows, begin, count, kChunkElements, convert);
    return {};
  }

  std::optional<PackedForm> form_of(std::string_view name,
                                    std::span<const std::int64_t> /*shape*/) const override {
    const auto it = model_.tensors().find(name);
    if (it == model_.tensors().end() || it->second.tensor->shape.size() != 2) return {};
    const std::optional<WeightForm> form = gguf_form(*it->second.tensor->type);
    return form ? std::optional(PackedForm{*form}) : std::nullopt;
  }

  Status read_packed(std::string_view name, std::span<const std::int64_t> shape, std::int64_t first,
                     std::int64_t count, const PackedArrays& target) const override {
    TANDEM_ASSIGN(const Rows rows, rows_of(name, shape));
    const std::optional<PackedForm> packed = form_of(name, shape);
    if (!packed) return invalid("'{}' has no packed form", name);
    const WeightForm& form = packed->form;
    const std::int64_t cols = shape[1];
    const auto width = static_cast<std::size_t>(cols);
    const std::size_t chunk = std::max<std::size_t>(1, kChunkElements / width) * width;
    const auto pack = [&](std::size_t begin, std::size_t end) {
      for (auto row = static_cast<std::int64_t>(begin / width);
           row < static_cast<std::int64_t>(end / width); ++row) {
        rows.pack_row(first + row, rows_from(target, form, cols, row));
      }
    };
    read_chunks(name, rows, static_cast<std::size_t>(first) * width,
                static_cast<std::size_t>(count) * width, chunk, pack);
    return {};
  }

  Status check_all_used(const std::set<std::string, std::less<>>& used) const override {
    for (const auto& [name, place] : model_.tensors()) {
      if (used.contains(name) || name.starts_with("rope_")) continue;
      return invalid("{}: tensor '{}' has no place in this architecture", model_.path(),
                     shown_text(name));
    }
    return {};
  }

  std::uint64_t packed_bytes() const override {
    std::uint64_t sum = 0;
    for (const auto& [name, place] : model_.tensors()) {
      if (!place.tensor->type->dtype) sum += place.tensor->end - place.tensor->begin;
    }
    return sum;
  }

 private:
  Result<Rows> rows_of(std::string_view name, std::span<const std::int64_t> shape) const {
    const auto it = model_.tensors().find(name);
    if (it == model_.tensors().end()) {
      return error(StatusCode::not_found, "{} has no tensor '{}'", model_.path(), name);
    }
    const auto& [file, tensor] = it->second;
    if (!std::ranges::equal(tensor->shape, shape)) {
      return invalid("{}: tensor '{}' is {}, the metadata asks for [{}]", file->path(), name,
                     to_string(*tensor), fmt::join(shape, ", "));
    }
    const auto heads = interleaved_.find(name);
    return Rows(*tensor, file->bytes(*tensor), heads == interleaved_.end() ? 0 : heads->second);
  }

  // Calls body(first, end) for pieces of elements [begin, begin + count), numbered from `begin` on.
  template <typename Body>
  void read_chunks(std::string_view name, const Rows& rows, std::size_t begin, std::size_t count,
                   std::size_t chunk, const Body& body) const {
    const auto& mapping = model_.tensors().find(name)->second.file->mapping();
    parallel_chunks(count, chunk, [&](std::size_t first, std::size_t end) {
      const auto piece = rows.around(begin + first, begin + end);
      mapping.fetch(piece);
      body(first, end);
      // The weights have been copied; keeping the mapping would count them a second time.
      mapping.drop(piece);
    });
  }

  GgufModel model_;
  std::map<std::string, std::int64_t, std::less<>> interleaved_;  // heads, by tensor
};

}  // namespace

Result<std::unique_ptr<WeightSource>> open_gguf(const std::filesystem::path& path) {
  TANDEM_ASSIGN(GgufModel model, GgufModel::open(path));
  auto checkpoint = std::make_unique<GgufCheckpoint>(std::move(model));
  const Status status = checkpoint->look_for_interleaved();
  if (!status) return status.with_context(path.string());
  return std::unique_ptr<WeightSource>(std::move(checkpoint));
}

}  // namespace tandem
