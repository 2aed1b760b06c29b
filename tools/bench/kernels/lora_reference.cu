#include <cuda_bf16.h>

#include "gpu/cuda/base/cuda_status.h"
#include "tools/bench/kernels/lora_reference.h"

namespace tandem::kernels {
namespace {

struct Judged {
  const __nv_bfloat16* x;
  std::int64_t x_stride;
  int in;
  const LoraMatrix* table;
  std::int64_t slot_stride;
  const LoraSegment* segments;
  const std::int32_t* rows;
  const __nv_bfloat16* before;
  const __nv_bfloat16* out;
  std::int64_t out_stride;
  int cols;
  int max_rank;
  float* v;
  float absolute;
  float relative;
  float* worst;
};

__device__ const __nv_bfloat16* matrix(std::uint64_t address) {
  return reinterpret_cast<const __nv_bfloat16*>(address);
}

// Grid: one block per segment and rank.
__global__ void shrink(Judged j) {
  const LoraSegment segment = j.segments[blockIdx.x];
  const LoraMatrix m = j.table[segment.slot * j.slot_stride];
  const int r = static_cast<int>(blockIdx.y);
  if (r >= m.rank) return;
  const __nv_bfloat16* a = matrix(m.a) + std::int64_t{r} * j.in;
  for (int n = static_cast<int>(threadIdx.x / 32); n < segment.count; n += 8) {
    const __nv_bfloat16* x = j.x + j.rows[segment.first + n] * j.x_stride;
    float sum = 0;
    for (int i = static_cast<int>(threadIdx.x % 32); i < j.in; i += 32) {
      sum += __bfloat162float(x[i]) * __bfloat162float(a[i]);
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0U, sum, step);
    if (threadIdx.x % 32 == 0) j.v[std::int64_t{segment.first + n} * j.max_rank + r] = sum;
  }
}

// Grid: one block per segment and 256 columns.
__global__ void compare(Judged j) {
  const LoraSegment segment = j.segments[blockIdx.x];
  const LoraMatrix m = j.table[segment.slot * j.slot_stride];
  const int o = static_cast<int>(blockIdx.y * 256 + threadIdx.x);
  float worst = 0;
  for (int n = static_cast<int>(blockIdx.z); n < segment.count && o < j.cols; n += gridDim.z) {
    const std::int64_t row = j.rows[segment.first + n];
    float delta = 0;
    for (int r = 0; r < m.rank; ++r) {
      delta += j.v[std::int64_t{segment.first + n} * j.max_rank + r] *
               __bfloat162float(matrix(m.b)[std::int64_t{o} * m.b_stride + r]);
    }
    const float want = __bfloat162float(j.before[row * j.cols + o]) + delta;
    const float got = __bfloat162float(j.out[row * j.out_stride + o]);
    const float error = fabsf(got - want) / (j.absolute + j.relative * fabsf(want));
    worst = error <= 3e38F ? fmaxf(worst, error) : INFINITY;
  }
  // Errors are not negative, so their bits have the same order as their values.
  atomicMax(reinterpret_cast<int*>(j.worst), __float_as_int(worst));
}

}  // namespace

Status judge_lora(const LoraArgs& args, const void* before, float* v, float absolute,
                  float relative, float* worst, cudaStream_t stream) {
  Judged j{static_cast<const __nv_bfloat16*>(args.x.data),
           args.x.stride[0],
           static_cast<int>(args.x.cols()),
           args.table,
           args.slot_stride,
           args.segments,
           args.rows,
           static_cast<const __nv_bfloat16*>(before),
           static_cast<const __nv_bfloat16*>(args.out[0].data),
           args.out[0].stride[0],
           static_cast<int>(args.out[0].cols()),
           args.max_rank,
           v,
           absolute,
           relative,
           worst};
  TANDEM_TRY(cuda::cuda_status(cudaMemsetAsync(worst, 0, sizeof(float), stream), "judging"));
  const auto segments = static_cast<unsigned>(args.num_segments);
  shrink<<<dim3(segments, static_cast<unsigned>(args.max_rank)), 256, 0, stream>>>(j);
  const auto columns = static_cast<unsigned>((j.cols + 255) / 256);
  compare<<<dim3(segments, columns, args.max_count > 64 ? 16 : 1), 256, 0, stream>>>(j);
  return cuda::cuda_status(cudaPeekAtLastError(), "judging a LoRA operation");
}

}  // namespace tandem::kernels
