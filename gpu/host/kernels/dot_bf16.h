// Products of bf16 rows for CPUs that multiply pairs of bf16 (AVX512-BF16 without AMX: Zen 4 and
// later, Cooper Lake): twice the rate of their float products, and no widening.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace tandem::host {

// acc[r][o] = sum_i x[r][i] w[o][i], r < rows, o < outputs, i < k; summed in float, with denormal
// numbers treated as zero.
struct DotBf16 {
  const bf16* w;  // [outputs, k], rows w_stride elements apart
  std::int64_t w_stride;
  std::int64_t outputs;
  std::int64_t k;
  const bf16* x;  // [rows, k], rows x_stride apart
  std::int64_t x_stride;
  std::int64_t rows;
  float* acc;  // [rows, outputs], rows acc_stride apart; overwritten
  std::int64_t acc_stride;
};

// True if this CPU, and this build, support it. Callable on any thread.
bool can_dot_bf16();
// True if products of bf16 also take less time than those of float: on AMD's CPUs half of it. On a
// Sapphire Rapids whose AMX is hidden from a virtual machine they take 1.9 times as long.
bool dot_bf16_is_faster();
// Requires can_dot_bf16(). Callable on any thread.
void dot_bf16(const DotBf16& product);

}  // namespace tandem::host
