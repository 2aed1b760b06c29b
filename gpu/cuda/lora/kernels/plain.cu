// y += (x A^T) B^T, or one half of it, for everything that the tensor core kernels do not support:
// float32, unaligned widths and rows, and ranks above 512. One block per row and module: its warps
// share the ranks (v in shared memory), then its threads the columns. Correct on every GPU; not
// tuned for speed.
#include "gpu/cuda/base/launch_order.cuh"
#include "gpu/cuda/lora/kernels/plain_rows.cuh"

namespace tandem::cuda {
namespace {

constexpr int kPlainMaxRank = 2048;

template <typename T, typename Out, bool kPaged>
__global__ void __launch_bounds__(kPlainThreads) plain_lora(const __grid_constant__ LoraParams p) {
  __shared__ LoraTile found;
  __shared__ float v[kPlainMaxRank];
  allow_next_kernel();
  const int position = static_cast<int>(blockIdx.x);
  const int which = static_cast<int>(blockIdx.y);
  if (threadIdx.x == 0) found = {};
  __syncthreads();
  if (p.segments == nullptr) {
    if (threadIdx.x == 0) found = find_tile(p, 1, position);
  } else {
    for (int s = static_cast<int>(threadIdx.x); s < p.num_segments; s += kPlainThreads) {
      const LoraRows segment = p.segments[s];
      if (position >= segment.first && position < segment.first + segment.count) {
        found = {segment.slot, position, 1};
      }
    }
  }
  __syncthreads();
  wait_for_previous_kernels();
  if (found.count == 0) return;
  const LoraEntry entry = entry_of(p, found.slot, which);
  const WeightBytes<kPaged> bytes(p, found.slot);
  const std::int64_t row = row_of(p, position);
  const T* x = static_cast<const T*>(p.x) + row * p.x_stride;
  const int each = ranks_of_share(entry.rank, p.num_shares);
  const int first = p.half == LoraHalf::shrink ? min(p.share * each, entry.rank) : 0;
  const int ranks = p.half == LoraHalf::shrink ? min(each, entry.rank - first) : entry.rank;
  const int lane = threadIdx.x % 32;
  if (p.half == LoraHalf::expand) {
    for (int r = static_cast<int>(threadIdx.x); r < ranks; r += kPlainThreads) {
      const int part = r / each * p.num_modules + which;
      v[r] = p.v[row * p.v_stride + std::int64_t{part} * p.v_width + r % each];
    }
  } else {
    for (int r = static_cast<int>(threadIdx.x / 32); r < ranks; r += kPlainThreads / 32) {
      float sum = 0;
      for (int i = lane; i < p.in; i += 32) {
        sum += to_float(x[i]) *
               weight_at<T, kPaged>(bytes, entry.a, std::int64_t{first + r} * p.in + i);
      }
      for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0U, sum, step);
      if (lane == 0) v[r] = sum;
    }
  }
  __syncthreads();
  if (p.half == LoraHalf::shrink) {
    float* const to = p.v + row * p.v_stride + std::int64_t{which} * p.v_width;
    for (int r = static_cast<int>(threadIdx.x); r < ranks; r += kPlainThreads) to[r] = v[r];
    return;
  }
  const LoraOutput& out = p.out[which];
  Out* y = static_cast<Out*>(out.data) + row * out.stride;
  for (int o = static_cast<int>(threadIdx.x); o < out.cols && entry.rank > 0; o += kPlainThreads) {
    float sum = 0;
    for (int r = 0; r < entry.rank; ++r) {
      sum += v[r] * weight_at<T, kPaged>(bytes, entry.b,
                                         std::int64_t{p.first_column + o} * entry.b_stride + r);
    }
    y[o] = from_float<Out>(to_float(y[o]) + sum);
  }
}

template <typename T, typename Out>
cudaError_t launch(const LoraParams& p, bool overlap, cudaStream_t stream) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(p.num_rows), static_cast<unsigned>(p.num_modules));
  config.blockDim = dim3(kPlainThreads);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = overlap ? 1 : 0;
  return p.page_base != nullptr ? cudaLaunchKernelEx(&config, plain_lora<T, Out, true>, p)
                                : cudaLaunchKernelEx(&config, plain_lora<T, Out, false>, p);
}

}  // namespace

cudaError_t launch_lora_plain(const LoraParams& p, bool overlap, cudaStream_t stream) {
  const bool wide = p.out_type == LoraType::f32;
  switch (p.type) {
    case LoraType::f16:
      return wide ? launch<__half, float>(p, overlap, stream)
                  : launch<__half, __half>(p, overlap, stream);
    case LoraType::bf16:
      return wide ? launch<__nv_bfloat16, float>(p, overlap, stream)
                  : launch<__nv_bfloat16, __nv_bfloat16>(p, overlap, stream);
    default:
      return launch<float, float>(p, overlap, stream);
  }
}

}  // namespace tandem::cuda
