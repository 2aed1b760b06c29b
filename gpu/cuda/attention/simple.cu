// out[t, h] = softmax(scale q[t, h] K^T) V, in the simplest form. One block per row, sequence and
// query head; its warps take every kWarps-th key, a lane holds d / 32 of the output. Grid: max_rows
// x sequences x heads. Not tuned: it serves f32, and head sizes and strides that the other
// kernels do not support.
#include <cmath>

#include "gpu/cuda/attention/kernels.h"
#include "gpu/cuda/base/dispatch.h"
#include "gpu/cuda/base/element.cuh"
#include "gpu/cuda/base/launch.h"

namespace tandem::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kPerLane = kMaxSimpleHeadDim / 32;

template <typename T>
__global__ __launch_bounds__(kWarps * 32) void simple_attention(
    const __grid_constant__ AttentionOperands args) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int d = args.head_dim;
  const AttentionSequence sequence = args.sequences[blockIdx.y];
  const auto row = static_cast<std::int32_t>(blockIdx.x);
  if (row >= sequence.num_rows || sequence.kv_len == 0) return;
  const std::int64_t t = sequence.first_row + row;
  const auto h = static_cast<std::int64_t>(blockIdx.z);
  const std::int64_t kv_head = h / args.group;
  const std::int32_t keys = sequence.kv_len - sequence.num_rows + row + 1;
  const std::int32_t first_key = args.window == 0 ? 0 : max(0, keys - args.window);
  const KvLayer& cache = args.cache;

  float q[kPerLane];
  float out[kPerLane];
  const T* from = static_cast<const T*>(args.q) + t * args.q_row + h * args.q_head;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    q[i] = lane + 32 * i < d ? to_float(from[lane + 32 * i]) : 0.0F;
    out[i] = 0;
  }
  // A sink is a score that one warp has seen before all others, with a value of zero.
  const bool has_sink = args.sinks != nullptr && warp == 0;
  float max = has_sink ? args.sinks[h] : -INFINITY;
  float sum = has_sink ? 1 : 0;
  const std::int64_t values = static_cast<std::int64_t>(args.kv_heads) * cache.page_tokens * d;
  for (std::int32_t key = first_key + warp; key < keys; key += kWarps) {
    const std::int64_t page = args.page_ids[sequence.pages + key / cache.page_tokens];
    const T* k = static_cast<const T*>(cache.base) + page * cache.page_stride +
                 (kv_head * cache.page_tokens + key % cache.page_tokens) * d;
    float dot = 0;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      if (lane + 32 * i < d) dot += q[i] * to_float(k[lane + 32 * i]);
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) dot += __shfl_xor_sync(~0U, dot, offset);
    dot *= args.scale;
    if (args.softcap != 0) dot = args.softcap * tanhf(dot / args.softcap);
    const float larger = fmaxf(max, dot);
    const float keep = larger == -INFINITY ? 1.0F : expf(max - larger);
    const float weight = larger == -INFINITY ? 0.0F : expf(dot - larger);
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      if (lane + 32 * i < d) out[i] = out[i] * keep + weight * to_float(k[values + lane + 32 * i]);
    }
    sum = sum * keep + weight;
    max = larger;
  }

  __shared__ float warp_out[kWarps][kMaxSimpleHeadDim];
  __shared__ float warp_max[kWarps];
  __shared__ float warp_sum[kWarps];
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) warp_out[warp][lane + 32 * i] = out[i];
  if (lane == 0) {
    warp_max[warp] = max;
    warp_sum[warp] = sum;
  }
  __syncthreads();
  T* to = static_cast<T*>(args.out) + t * args.out_row + h * args.out_head;
  for (int column = static_cast<int>(threadIdx.x); column < d; column += kWarps * 32) {
    float highest = -INFINITY;
    for (const float each : warp_max) highest = fmaxf(highest, each);
    float mixed = 0;
    float total = 0;
    for (int w = 0; w < kWarps; ++w) {
      const float weight = warp_max[w] == -INFINITY ? 0.0F : expf(warp_max[w] - highest);
      mixed += weight * warp_out[w][column];
      total += weight * warp_sum[w];
    }
    to[column] = from_float<T>(total == 0 ? 0.0F : mixed / total);
  }
}

}  // namespace

Status launch_simple_attention(const AttentionArgs& args, cudaStream_t stream) {
  TANDEM_CHECK(args.q.cols() <= kMaxSimpleHeadDim, "head size {}", args.q.cols());
  if (args.num_sequences == 0 || args.max_rows == 0) return {};
  const dim3 grid(static_cast<unsigned>(args.max_rows), static_cast<unsigned>(args.num_sequences),
                  static_cast<unsigned>(args.q.dim[1]));
  return dispatch_dtype(args.q.dtype, [&]<typename T>(std::type_identity<T>) {
    return launch_kernel("attention", {.grid = grid, .block = kWarps * 32}, stream,
                         simple_attention<T>, operands_of(args));
  });
}

}  // namespace tandem::cuda
