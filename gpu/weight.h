// A matrix of a model's weights as it lies on a device.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/tensor.h"

namespace tandem {

// The encoding of a matrix's numbers. A new format is added here, in a checkpoint reader
// (engine/model/weights) and in the devices that compute it (Device::weight_formats); other devices
// load no model that has it.
enum class WeightFormat : std::uint8_t {
  dense,  // numbers of the compute dtype, contiguous
};
constexpr std::string_view to_string(WeightFormat format) {
  return format == WeightFormat::dense ? "dense" : "unknown";
}

// [out, in]. Views that a dense matrix does not use have rank 0.
struct Weight {
  Weight() = default;
  Weight(const TensorView& dense) : data(dense) {}  // NOLINT: a plain matrix is a weight

  WeightFormat format = WeightFormat::dense;
  TensorView data;         // dense: [out, in], compute dtype, dense rows
  TensorView scales;       // factors by which the numbers of a group are multiplied
  TensorView offsets;      // subtracted from the numbers before that
  std::int32_t group = 0;  // columns that share a scale; 0: no groups

  std::int64_t rows() const { return data.rows(); }
  std::int64_t cols() const { return data.cols(); }
};

}  // namespace tandem
