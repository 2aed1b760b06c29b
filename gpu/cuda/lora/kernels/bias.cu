// The LoRA kernels multiply by v what lies in a row of B up to a multiple of 64 ranks. v is zero
// past the adapter's rank, so they pass over the bias behind B's row, whatever it is, and this
// kernel adds it. It runs only in steps with an adapter that has biases: such adapters are rare,
// and the others' kernels pay nothing for them.
//
// Grid: rows x columns in pieces of kPlainThreads x modules. Bound by latency.
#include "gpu/cuda/lora/kernels/bias.h"

#include <algorithm>

#include "gpu/cuda/lora/kernels/plain_rows.cuh"

namespace tandem::cuda {
namespace {

template <typename T, typename Out, bool kPaged>
__global__ void __launch_bounds__(kPlainThreads) add_bias(const __grid_constant__ LoraParams p) {
  const int position = static_cast<int>(blockIdx.x);
  const int which = static_cast<int>(blockIdx.z);
  const int slot = slot_of(p, position);
  if (slot < 0) return;
  const LoraEntry entry = entry_of(p, slot, which);
  constexpr int kGroup = 16 / sizeof(T);
  const int bias_at = (entry.rank + kGroup - 1) / kGroup * kGroup;
  if (entry.rank == 0 || entry.b_stride <= bias_at) return;
  const LoraOutput& out = p.out[which];
  const int o = static_cast<int>(blockIdx.y) * kPlainThreads + static_cast<int>(threadIdx.x);
  if (o >= out.cols) return;
  const WeightBytes<kPaged> bytes(p, slot);
  const std::int64_t at = std::int64_t{p.first_column + o} * entry.b_stride + bias_at;
  Out* const y = static_cast<Out*>(out.data) + row_of(p, position) * out.stride + o;
  *y = from_float<Out>(to_float(*y) + weight_at<T, kPaged>(bytes, entry.b, at));
}

template <typename T, typename Out>
cudaError_t launch(const LoraParams& p, cudaStream_t stream) {
  int columns = 0;
  for (int m = 0; m < p.num_modules; ++m) columns = std::max(columns, p.out[m].cols);
  const dim3 blocks(static_cast<unsigned>(p.num_rows),
                    static_cast<unsigned>((columns + kPlainThreads - 1) / kPlainThreads),
                    static_cast<unsigned>(p.num_modules));
  if (p.page_base != nullptr) {
    add_bias<T, Out, true><<<blocks, kPlainThreads, 0, stream>>>(p);
  } else {
    add_bias<T, Out, false><<<blocks, kPlainThreads, 0, stream>>>(p);
  }
  return cudaPeekAtLastError();
}

}  // namespace

cudaError_t enqueue_bias(const LoraParams& p, cudaStream_t stream) {
  if (p.num_rows == 0 || p.num_segments == 0 || p.max_rank == 0) return cudaSuccess;
  const bool wide = p.out_type == LoraType::f32;
  switch (p.type) {
    case LoraType::f16:
      return wide ? launch<__half, float>(p, stream) : launch<__half, __half>(p, stream);
    case LoraType::bf16:
      return wide ? launch<__nv_bfloat16, float>(p, stream)
                  : launch<__nv_bfloat16, __nv_bfloat16>(p, stream);
    default:
      return launch<float, float>(p, stream);
  }
}

}  // namespace tandem::cuda
