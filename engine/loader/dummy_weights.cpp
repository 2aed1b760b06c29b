// Random weights as a WeightSource.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "engine/loader/quantised/packed_rows.h"
#include "engine/loader/random_fill.h"
#include "engine/loader/thread_team.h"
#include "engine/loader/weights.h"

namespace tandem {
namespace {

// In elements, a multiple of 4. Small enough that one part of a tensor keeps many threads busy.
constexpr std::size_t kChunk = 1 << 18;

struct Spread {
  float mean;
  float half_width;
};

// Keeps activations near unit size through any number of layers.
Spread spread_of(std::string_view name, std::span<const std::int64_t> shape, float norm_weight) {
  if (name.ends_with("norm.weight")) return {norm_weight, 0.1F};
  if (name.ends_with(".bias")) return {0.0F, 0.05F};
  // A uniform variable on [-h, h] has the variance h^2 / 3.
  const auto in = static_cast<float>(shape.back());
  return {0.0F, std::sqrt(3.0F / in)};
}

class DummyWeights final : public WeightSource {
 public:
  DummyWeights(std::uint64_t seed, float norm_weight, DummyFormat format)
      : seed_(seed), norm_weight_(norm_weight), format_(format) {}

  bool has(std::string_view /*name*/) const override { return true; }

  Status read_part(std::string_view name, std::span<const std::int64_t> shape, DType dtype,
                   std::size_t first, std::size_t wanted, void* target) const override {
    std::size_t total = shape.empty() ? 0 : 1;
    for (const std::int64_t size : shape) {
      TANDEM_CHECK(size >= 0, "{} has a negative size", name);
      if (__builtin_mul_overflow(total, static_cast<std::size_t>(size), &total)) {
        return invalid("tensor '{}' is too large for this machine", name);
      }
    }
    if (first >= total) return {};
    const std::size_t count = std::min(wanted, total - first);
    if (is_quantised(name, shape)) {
      dequantise_part(name, shape[1], dtype, first, count, static_cast<std::byte*>(target));
      return {};
    }
    const Spread spread = spread_of(name, shape, norm_weight_);
    const std::uint64_t key = random_key(seed_, name);
    parallel_chunks(count, kChunk, [&](std::size_t begin, std::size_t end) {
      random_fill(key, first + begin, end - begin, spread.mean, spread.half_width, dtype,
                  static_cast<std::byte*>(target) + begin * size_of(dtype));
    });
    return {};
  }

  std::optional<PackedForm> form_of(std::string_view name,
                                    std::span<const std::int64_t> shape) const override {
    if (!is_quantised(name, shape)) return std::nullopt;
    return packed_form(dummy_rows(format_, 0, 0, 1, shape[1]));
  }
  Status read_packed(std::string_view name, std::span<const std::int64_t> shape, std::int64_t first,
                     std::int64_t count, const PackedArrays& target) const override {
    const std::optional<PackedForm> packed = form_of(name, shape);
    if (!packed) return invalid("'{}' has no packed form", name);
    const std::int64_t cols = shape[1];
    const WeightForm& form = packed->form;
    const std::uint64_t key = random_key(seed_, name);
    parallel_chunks(as_index(count), rows_of_chunk(cols), [&](std::size_t begin, std::size_t end) {
      const auto row = static_cast<std::int64_t>(begin);
      pack(dummy_rows(format_, key, first + row, static_cast<std::int64_t>(end - begin), cols),
           rows_from(target, form, cols, row));
    });
    return {};
  }

 private:
  // Checkpoints quantise the projections of layers, and seldom embeddings and heads.
  bool is_quantised(std::string_view name, std::span<const std::int64_t> shape) const {
    constexpr std::int64_t kColumns = 64;  // of the smallest group
    return format_ != DummyFormat::bf16 && name.ends_with("_proj.weight") && shape.size() == 2 &&
           shape[1] > 0 && shape[1] % kColumns == 0;
  }

  static std::size_t rows_of_chunk(std::int64_t cols) {
    return std::max<std::size_t>(1, kChunk / as_index(cols));
  }

  void dequantise_part(std::string_view name, std::int64_t cols, DType dtype, std::size_t first,
                       std::size_t count, std::byte* target) const {
    const std::uint64_t key = random_key(seed_, name);
    const std::size_t width = as_index(cols);
    const std::size_t first_row = first / width;
    const std::size_t rows = (first + count + width - 1) / width - first_row;
    parallel_chunks(rows, rows_of_chunk(cols), [&](std::size_t begin, std::size_t end) {
      std::vector<float> values(width);
      for (std::size_t row = first_row + begin; row < first_row + end; ++row) {
        const auto one = static_cast<std::int64_t>(row);
        dequantise(dummy_rows(format_, key, one, 1, cols), 0, 1, values.data());
        const std::size_t from = std::max(first, row * width);
        const std::size_t to = std::min(first + count, (row + 1) * width);
        convert(DType::f32, values.data() + from % width, dtype,
                target + (from - first) * size_of(dtype), to - from);
      }
    });
  }

  std::uint64_t seed_;
  float norm_weight_;
  DummyFormat format_;
};

}  // namespace

std::unique_ptr<WeightSource> make_dummy_weights(std::uint64_t seed, float norm_weight,
                                                 DummyFormat format) {
  return std::make_unique<DummyWeights>(seed, norm_weight, format);
}

}  // namespace tandem
