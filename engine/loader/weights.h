// The source of a model's weights: a checkpoint on disk, or seeded random numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/status.h"
#include "engine/loader/dummy_matrices.h"
#include "engine/loader/quantised/packed_form.h"
#include "engine/model/spec/model_spec.h"

namespace tandem {

// Thread-safe, because the model reads many tensors at once.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual bool has(std::string_view name) const = 0;
  // Writes the tensor, converted to `dtype`, to `target`, which has as many elements as `shape`.
  // Fails if the tensor is missing or has another shape; the message names the tensor and both
  // shapes.
  Status read(std::string_view name, std::span<const std::int64_t> shape, DType dtype,
              void* target) const {
    return read_part(name, shape, dtype, 0, kToTheEnd, target);
  }

  // Like read() for elements [begin, begin + count) of the tensor, or fewer if it ends before.
  // `begin` is a multiple of 4.
  virtual Status read_part(std::string_view name, std::span<const std::int64_t> shape, DType dtype,
                           std::size_t begin, std::size_t count, void* target) const = 0;

  // The form in which the matrix can stay packed. Nothing if it is not quantised, has no such form,
  // or cannot be read, which reading it tells.
  virtual std::optional<PackedForm> form_of(std::string_view /*name*/,
                                            std::span<const std::int64_t> /*shape*/) const {
    return {};
  }
  // Writes rows [first, first + count) of a matrix that has a form to arrays in host memory, whose
  // first row is row `first`. Fails as read() does.
  virtual Status read_packed(std::string_view name, std::span<const std::int64_t> /*shape*/,
                             std::int64_t /*first*/, std::int64_t /*count*/,
                             const PackedArrays& /*target*/) const {
    return invalid("'{}' is not packed", name);
  }

  // Fails if the source has tensors that belong to the model and are not among `used`: ignoring
  // them would change the result. Safetensors may hold more than the model.
  virtual Status check_all_used(const std::set<std::string, std::less<>>& /*used*/) const {
    return {};
  }
  // Bytes of the source's quantised tensors.
  virtual std::uint64_t packed_bytes() const { return 0; }

 protected:
  static constexpr std::size_t kToTheEnd = static_cast<std::size_t>(-1);
};

// Opens DIR/model.safetensors, or the shards of DIR/model.safetensors.index.json, or a GGUF file
// (gguf_checkpoint.h), and maps them read-only. Every file's header is checked before this returns.
Result<std::unique_ptr<WeightSource>> open_checkpoint(const std::filesystem::path& path);

// Makes random weights of any shape. They depend on the seed and the name, not on the order of
// reading. Matrices are uniform with the variance of usual initialisations, norms are near
// `norm_weight`: 1, or 0 where one is added to it (ModelSpec::norm_adds_one).
// Projections of layers are quantised in `format` where 64 divides their columns; the last group of
// a row may be short.
std::unique_ptr<WeightSource> make_dummy_weights(std::uint64_t seed, float norm_weight = 1,
                                                 DummyFormat format = DummyFormat::bf16);

}  // namespace tandem
