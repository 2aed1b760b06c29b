// A matrix of a model's weights as it lies on a device.
#pragma once

#include <cstdint>

#include "base/tensor.h"
#include "gpu/weight_form.h"

namespace tandem {

// The arrays of a matrix that is not dense. Each has a row for each row of the matrix, as many
// bytes wide as WeightForm says, without gaps; what the form does not use is null.
struct PackedArrays {
  // Codes in the order of places. Of two 4-bit codes in a byte the first is low, and of the high
  // parts in a byte the first is lowest.
  std::uint8_t* low = nullptr;
  std::uint8_t* high = nullptr;
  std::byte* scales = nullptr;  // ScaleForm's values
  std::uint8_t* scale_codes = nullptr;
  std::byte* offsets = nullptr;
  std::uint8_t* offset_codes = nullptr;
  std::uint8_t* zeros = nullptr;
};

// [out, in]. Does not own.
struct Weight {
  Weight() = default;
  Weight(const TensorView& dense) : data(dense) {}  // NOLINT: a plain matrix is a weight

  TensorView data;  // dense: [out, in], compute dtype, dense rows; otherwise of rank 0
  WeightForm form;
  PackedArrays packed;
  std::int64_t packed_rows = 0, packed_cols = 0;
  const float* table = nullptr;         // [256] of ScaleForm::Codes::table, of scales
  const std::int32_t* order = nullptr;  // [in], the column at each place; null: in order
  bool arranged = false;                // by Stream::arrange: in a layout of the device's own

  WeightFormat format() const { return form.format; }
  bool is_dense() const { return form.format == WeightFormat::dense; }
  std::int64_t rows() const { return is_dense() ? data.rows() : packed_rows; }
  std::int64_t cols() const { return is_dense() ? data.cols() : packed_cols; }
};

}  // namespace tandem
