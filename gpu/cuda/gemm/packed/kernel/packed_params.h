// The parameters of the kernel that multiplies by a packed weight.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "gpu/cuda/gemm/packed/kernel/packed_maps.h"
#include "gpu/cuda/gemm/packed/kernel/packed_plan.h"

namespace tandem::cuda {

struct PackedParams {
  void* y;                      // [rows, out]
  const void* bias;             // [out] or null
  const std::byte* row_scales;  // of whole rows; null: scales of groups, in the stages
  std::int64_t y_stride;        // elements
  PackedPlan plan;
  int rows;
  int out;  // columns of y
  int zero;
  int scale_bytes;
  float factor, summand;  // a scale is factor value + summand
  DType scale_dtype;
  float codebook[16];
  bool zeros;  // one for each group, in the stages
  bool y_is_f32;
  bool y_is_aligned;  // to four elements
  bool accumulate;
  bool swiglu;  // row `out` + o of w belongs with row o
  bool gelu;    // the activation is gelu_tanh, not silu
};

using PackedKernel = void (*)(PackedMaps, PackedParams);

}  // namespace tandem::cuda
