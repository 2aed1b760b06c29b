// Rows of packed weights (gpu/weight.h) as numbers, and products by them.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "gpu/weight.h"

namespace tandem::host {

// target[r] = row first + r of `weight`, r < count, in the order of places: f32, or rounded to bf16
// or f16. Rows of the target are `stride` elements apart. `weight` is packed. Callable on any
// thread.
void unpack_rows(const Weight& weight, std::int64_t first, std::int64_t count, DType dtype,
                 void* target, std::int64_t stride);

// Rows of x that dot_packed multiplies by at once.
inline constexpr std::int64_t kMaxPackedRows = 8;
// Rows of x lie this number of elements apart, or a multiple of it, and end in zeros.
inline constexpr std::int64_t kPackedPad = 32;
constexpr std::int64_t padded_for_packed(std::int64_t cols) {
  return (cols + kPackedPad - 1) / kPackedPad * kPackedPad;
}
// The number of rows, those of x and rows of zeros behind them, that dot_packed reads.
constexpr std::int64_t rows_for_packed(std::int64_t rows) {
  return rows <= 2 ? rows : rows <= 4 ? 4 : kMaxPackedRows;
}
// Brings a row of x, [padded_for_packed(weight.cols())] in the order of places, into the order in
// which dot_packed reads it, in place.
void arrange_row(const Weight& weight, float* x);

// acc[r][o] = sum_i x[r][i] w[first + o][i], r < rows, o < outputs. Weights have the same float
// values as in unpack_rows; they are read once, and are never stored unpacked.
struct DotPacked {
  const Weight& weight;  // packed
  std::int64_t first;
  std::int64_t outputs;
  const float* x;  // [rows_for_packed(rows), x_stride], arranged
  std::int64_t x_stride;
  std::int64_t rows;  // 1 to kMaxPackedRows
  float* acc;         // [rows, outputs], rows acc_stride apart; overwritten
  std::int64_t acc_stride;
};
// Callable on any thread.
void dot_packed(const DotPacked& product);

}  // namespace tandem::host
