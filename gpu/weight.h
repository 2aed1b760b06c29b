// A matrix of a model's weights as it lies on a device.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/tensor.h"

namespace tandem {

// How the numbers of a matrix are written. A format is added here, to a reader of checkpoints
// (engine/model/weights) and to the devices that compute it; check_args() refuses it by name on the
// others.
enum class WeightFormat : std::uint8_t {
  dense,  // of the compute dtype, one after another
};
constexpr std::string_view to_string(WeightFormat format) {
  return format == WeightFormat::dense ? "dense" : "unknown";
}

// [out, in]. What a dense matrix has no use for is a view of rank 0.
struct Weight {
  Weight() = default;
  Weight(const TensorView& dense) : data(dense) {}  // NOLINT: a plain matrix is a weight

  WeightFormat format = WeightFormat::dense;
  TensorView data;         // dense: [out, in], compute dtype, dense rows
  TensorView scales;       // what the numbers of a group are multiplied by
  TensorView offsets;      // and what is taken from them before
  std::int32_t group = 0;  // columns that share a scale; 0: no groups

  bool is_absent() const { return data.rank == 0; }
  std::int64_t rows() const { return data.rows(); }
  std::int64_t cols() const { return data.cols(); }
};

}  // namespace tandem
