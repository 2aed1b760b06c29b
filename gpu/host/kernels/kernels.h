// The vector loops of the host operations: one thread, one tile or row, no allocation. Each uses
// the best instruction set of the CPU (Highway's dynamic dispatch).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "gpu/activation.h"

namespace tandem::host {

// Rows of float scratch are padded to a multiple of this many elements; the padding is zero.
inline constexpr std::int64_t kRowPad = 16;
constexpr std::int64_t padded(std::int64_t n) {
  return (n + kRowPad - 1) / kRowPad * kRowPad;
}

// acc[r][o] = sum_i x[r][i] w[o][i], r < rows, o < outputs, i < k. Up to eight rows it reads the
// weights once and is bound by memory, beyond that by FMA.
struct DotTile {
  DType dtype;    // of w
  const void* w;  // [outputs, k], rows w_stride elements apart
  std::int64_t w_stride;
  std::int64_t outputs;
  std::int64_t k;
  const float* x;  // [rows, padded(k)], zeros after k, rows x_stride apart
  std::int64_t x_stride;
  std::int64_t rows;
  float* acc;  // [rows, outputs], rows acc_stride apart; overwritten
  std::int64_t acc_stride;
};
void dot_tile(const DotTile& tile);

// acc[r][i] += sum_t p[r][t] v[t][i], r < rows, t < tokens, i < d.
struct MixTile {
  DType dtype;    // of v
  const void* v;  // [tokens, d], rows v_stride apart
  std::int64_t v_stride;
  std::int64_t tokens;
  std::int64_t d;
  const float* p;  // [rows, tokens], rows p_stride apart
  std::int64_t p_stride;
  std::int64_t rows;
  float* acc;  // [rows, padded(d)], rows acc_stride apart
  std::int64_t acc_stride;
};
void mix_tile(const MixTile& tile);

// target[i] = float(source[i]) * scale, and zeros up to padded(n).
void widen_row(DType dtype, const void* source, std::int64_t n, float scale, float* target);

// y[i] = dtype(acc[i] (+ bias[i]) (+ y[i] when accumulate)); bias may be null.
struct StoreRow {
  const float* acc;
  std::int64_t n;
  DType bias_dtype;
  const void* bias;
  DType dtype;
  void* y;
  bool accumulate;
};
void store_row(const StoreRow& row);

// out[i] = x[i] / sqrt(mean(x^2) + eps) * weight[i], or with x - mean(x) in place of x
struct NormRow {
  DType x_dtype;
  const void* x;
  const float* weight;  // null: 1
  std::int64_t n;
  float eps;
  DType out_dtype;
  void* out;  // may be x
  bool centred = false;
  const float* squares = nullptr;  // the sum of x^2 of the whole row, if x is a part of one
  std::int64_t width = 0;          // the elements of that row
};
void norm_row(const NormRow& row);
// The sum of x[i]^2.
float row_squares(DType dtype, const void* x, std::int64_t n);

// residual[i] += sum[i] / sqrt(mean(sum^2) + eps) * weight[i]
struct AddRow {
  const float* sum;
  const float* weight;  // null: the sum is added as it is
  std::int64_t n;
  float eps;
  float* residual;
};
void add_row(const AddRow& row);

// Rotates the pairs (x[i], x[i + pairs]), or (x[2 i], x[2 i + 1]) if `interleaved`, by the angles
// with cosine cos[i] and sine sin[i].
struct RopeRow {
  DType dtype;
  void* x;
  std::int64_t pairs;
  const float* cos;
  const float* sin;
  bool interleaved;
};
void rope_row(const RopeRow& row);

// out[i] = activation(gate[i]) up[i]
struct GateRow {
  Activation activation;
  DType dtype;  // of gate and up
  const void* gate;
  const void* up;
  std::int64_t n;
  DType out_dtype;
  void* out;
};
void gate_row(const GateRow& row);

// x[i] *= factor, of any dtype
void scale_typed_row(DType dtype, void* x, std::int64_t n, float factor);
// x[i] *= factor
void scale_row(float* x, std::int64_t n, float factor);
// x[i] = cap tanh(x[i] / cap)
void cap_row(float* x, std::int64_t n, float cap);

// One row's step of the online softmax: sets x[i] = exp(x[i] - m) for i < n; returns their sum.
float exp_row(float* x, std::int64_t n, float m);
// The largest of n >= 1 numbers; NaNs are ignored; -infinity if there is no other number.
float max_row(const float* x, std::int64_t n);

// The instruction set in use: "AVX3", "AVX2", ...
const char* simd_name();

}  // namespace tandem::host
