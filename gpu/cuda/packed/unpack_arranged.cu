// out[r] = row r of an arranged weight. A thread has eight columns of four rows: it reads the four
// words that hold them, which its neighbours share, and writes vectors of 16 bytes. Bound by
// writing `out` and by about twelve instructions a number.
#include <cstdint>

#include "gpu/cuda/base/dispatch.h"
#include "gpu/cuda/base/element.cuh"
#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/packed/layout.h"
#include "gpu/cuda/packed/unpack_arranged.h"

namespace tandem::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kColumns = 8;  // a thread's
constexpr int kRows = 4;     // likewise

struct ArrangedParams {
  const std::uint32_t* codes;
  const std::byte* scales;    // [groups, rows]
  const std::uint8_t* zeros;  // likewise, or null
  int rows, cols, group;
  int first_row, out_rows;
  int zero;
  float factor, summand;  // a scale is factor value + summand
  DType scale_dtype;
  float codebook[16];
  void* out;  // [out_rows, cols]
};

__device__ __forceinline__ float value_at(const std::byte* values, DType dtype, std::int64_t i) {
  if (dtype == DType::f32) return reinterpret_cast<const float*>(values)[i];
  if (dtype == DType::f16) return to_float(reinterpret_cast<const __half*>(values)[i]);
  return to_float(reinterpret_cast<const __nv_bfloat16*>(values)[i]);
}

template <typename Out, WeightFormat kFormat, int kBits>
__global__ void unpack_arranged(const __grid_constant__ ArrangedParams p) {
  allow_next_kernel();
  __shared__ float codebook[16];
  if (kFormat == WeightFormat::codebook) {
    if (threadIdx.x < 16) codebook[threadIdx.x] = p.codebook[threadIdx.x];
    __syncthreads();
  }
  const int place =
      (static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x)) * kColumns;
  if (place >= p.cols) return;
  const int c = place % kPackedBlock;
  const int pair = c % 32 / 16 * 2 + c % 16 / 8;
  constexpr bool kIsCodebook = kFormat == WeightFormat::codebook;
  const int shift = kBits == 8 ? pair % 2 * 8 : kIsCodebook ? pair * 8 : pair * 4;
  constexpr int kNext = kIsCodebook ? 4 : 16;
  constexpr std::uint32_t kMask = (1U << kBits) - 1;
  const int group = place / p.group;
  const int begin = static_cast<int>(blockIdx.y) * kRows;

  std::uint32_t words[kRows][4];
  float scales[kRows];
  int zeros[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const std::int64_t row = p.first_row + min(begin + r, p.out_rows - 1);
    const std::uint32_t* const block = p.codes + (row * p.cols + place - c) / (32 / kBits);
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      words[r][t] =
          block[kBits == 4 ? arranged_nibble(c + 2 * t) / 8 : arranged_byte(c + 2 * t) / 4];
    }
    const std::int64_t at = static_cast<std::int64_t>(group) * p.rows + row;
    scales[r] = value_at(p.scales, p.scale_dtype, at) * p.factor + p.summand;
    zeros[r] = p.zero + (p.zeros == nullptr ? 0 : p.zeros[at]);
  }
  wait_for_previous_kernels();  // they may still read what is written now
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (begin + r >= p.out_rows) return;
    float values[kColumns];
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      const std::uint32_t code = words[r][i / 2] >> (shift + i % 2 * kNext) & kMask;
      if constexpr (kIsCodebook) {
        values[i] = codebook[code];
      } else if constexpr (kFormat == WeightFormat::fp8) {
        values[i] = __uint_as_float((code & 0x7fU) << 20 | (code & 0x80U) << 24) * 0x1p120F;
      } else {  // 2^23 + code, less 2^23 + zero
        values[i] = __uint_as_float(0x4b000000U | code) -
                    __uint_as_float(0x4b000000U + static_cast<unsigned>(zeros[r]));
      }
      values[i] *= scales[r];
    }
    Out* const to =
        static_cast<Out*>(p.out) + static_cast<std::int64_t>(begin + r) * p.cols + place;
    constexpr int kPer = Vec16<Out>::kSize;
#pragma unroll
    for (int part = 0; part < kColumns / kPer; ++part) {
      Vec16<Out> v;
#pragma unroll
      for (int i = 0; i < kPer; ++i) v.element[i] = from_float<Out>(values[part * kPer + i]);
      reinterpret_cast<Vec16<Out>*>(to)[part] = v;
    }
  }
}

}  // namespace

bool can_unpack_arranged(const Weight& weight, const TensorView& out) {
  return weight.arranged && weight.order == nullptr && out.is_dense() &&
         reinterpret_cast<std::uintptr_t>(out.data) % 16 == 0 &&
         out.rows() <= std::int64_t{kRows} * 65535;
}

Status launch_unpack_arranged(const Weight& weight, std::int64_t first_row, const TensorView& out,
                              cudaStream_t stream) {
  if (out.num_elements() == 0) return {};
  const WeightForm& form = weight.form;
  ArrangedParams p{};
  p.codes = reinterpret_cast<const std::uint32_t*>(weight.packed.low);
  p.scales = weight.packed.scales;
  p.zeros = form.has_zeros ? weight.packed.zeros : nullptr;
  p.rows = static_cast<int>(weight.rows());
  p.cols = static_cast<int>(weight.cols());
  p.group = form.group;
  p.first_row = static_cast<int>(first_row);
  p.out_rows = static_cast<int>(out.rows());
  p.zero = form.zero;
  p.factor = form.scales.factor;
  p.summand = form.scales.factor * form.scales.added;
  p.scale_dtype = form.scales.dtype;
  for (std::size_t i = 0; i < 16; ++i) p.codebook[i] = form.codebook[i];
  p.out = out.data;
  const dim3 grid(static_cast<unsigned>((p.cols + kThreads * kColumns - 1) / (kThreads * kColumns)),
                  static_cast<unsigned>((p.out_rows + kRows - 1) / kRows));
  return dispatch_dtype(out.dtype, [&](auto type) {
    using Out = typename decltype(type)::type;
    auto* const kernel =
        form.format == WeightFormat::fp8        ? unpack_arranged<Out, WeightFormat::fp8, 8>
        : form.format == WeightFormat::codebook ? unpack_arranged<Out, WeightFormat::codebook, 4>
        : form.bits == 4                        ? unpack_arranged<Out, WeightFormat::affine, 4>
                                                : unpack_arranged<Out, WeightFormat::affine, 8>;
    return launch_kernel("rows of an arranged weight",
                         {.grid = grid, .block = dim3(kThreads), .overlap = true}, stream, kernel,
                         p);
  });
}

}  // namespace tandem::cuda
