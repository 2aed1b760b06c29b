// Rotary embedding of q and k, and the append of k and v to the cache, in one pass:
//   (x[i], x[i + d/2]) = (x[i] c - x[i + d/2] s, x[i + d/2] c + x[i] s), i < d/2,
//   cache[slot] = k, v.
// Grid: rows x chunks of the row's pairs; a thread rotates or copies V pairs of one head. Bound by
// memory: q, k and v are read once, q and the cache are written once.
#include "gpu/cuda/base/dispatch.h"
#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/elementwise/elementwise.h"
#include "gpu/cuda/elementwise/rows.cuh"

namespace tandem::cuda {
namespace {

constexpr int kThreads = 128;

struct HeadRows {
  void* data;
  std::int64_t row_stride;
  std::int64_t head_stride;
};

struct RopeAppendParams {
  HeadRows q, k, v;
  const float* cos_sin;
  std::int64_t position_stride;
  std::int64_t angle_stride;  // distance from a position's cosines to its sines
  std::int64_t num_positions;
  const std::int32_t* positions;
  const std::int32_t* slots;
  void* cache;
  std::int64_t page_stride;
  std::int32_t page_tokens;
  std::int32_t heads;
  std::int32_t kv_heads;
  std::int32_t half;  // d / 2
};

template <typename T, int V>
__global__ void rope_append(RopeAppendParams p) {
  allow_next_kernel();
  const std::int32_t per_head = (p.half + V - 1) / V;
  const std::int32_t item = static_cast<std::int32_t>(blockIdx.y * kThreads + threadIdx.x);
  std::int32_t head = item / per_head;
  const std::int32_t i = (item - head * per_head) * V;
  if (head >= p.heads + 2 * p.kv_heads) return;
  const bool is_query = head < p.heads;
  const bool is_key = !is_query && head < p.heads + p.kv_heads;
  const HeadRows x = is_query ? p.q : is_key ? p.k : p.v;
  head -= is_query ? 0 : is_key ? p.heads : p.heads + p.kv_heads;
  // Positions and slots were copied before the step's first kernel, the angles at startup. The
  // loads bypass L1, which may still hold the previous step's values as this kernel has not waited.
  const std::int64_t t = blockIdx.x;
  float cosine[V];
  float sine[V];
  std::int64_t slot = -1;
  if (is_query || is_key) {
    const std::int32_t position = __ldcg(p.positions + t);
    if (position < 0 || position >= p.num_positions) __trap();
    const float* const angles = p.cos_sin + position * p.position_stride + i;
    load_row<V>(angles, cosine);
    load_row<V>(angles + p.angle_stride, sine);
  }
  if (!is_query) slot = __ldcg(p.slots + t);
  wait_for_previous_kernels();

  T* const pairs = static_cast<T*>(x.data) + t * x.row_stride + head * x.head_stride + i;
  float low[V];
  float high[V];
  load_row<V>(pairs, low);
  load_row<V>(pairs + p.half, high);
  if (is_query || is_key) {
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const float a = low[j];
      const float b = high[j];
      low[j] = a * cosine[j] - b * sine[j];
      high[j] = b * cosine[j] + a * sine[j];
    }
  }
  if (is_query) {
    store_row<V>(pairs, low);
    store_row<V>(pairs + p.half, high);
    return;
  }
  if (slot < 0) return;
  const std::int64_t page = slot / p.page_tokens;
  const std::int64_t offset = slot % p.page_tokens;
  const std::int64_t plane = (is_key ? 0 : p.kv_heads) + head;
  T* const to = static_cast<T*>(p.cache) + page * p.page_stride +
                (plane * p.page_tokens + offset) * (2 * std::int64_t{p.half}) + i;
  store_row<V>(to, low);
  store_row<V>(to + p.half, high);
}

template <typename T, int V>
Status launch(const RopeAppendParams& p, std::int64_t rows, cudaStream_t stream) {
  const std::int64_t items = (p.heads + 2 * std::int64_t{p.kv_heads}) * ceil_div(p.half, V);
  const dim3 grid(static_cast<unsigned>(rows), static_cast<unsigned>(ceil_div(items, kThreads)));
  return launch_kernel("rope_append", {.grid = grid, .block = dim3(kThreads), .overlap = true},
                       stream, rope_append<T, V>, p);
}

}  // namespace

Status launch_rope_append(const RopeAppendArgs& args, cudaStream_t stream) {
  if (args.q.rows() == 0) return {};
  const auto heads_of = [](const TensorView& view) {
    return HeadRows{view.data, view.stride[0], view.stride[1]};
  };
  const RopeAppendParams p{heads_of(args.q),
                           heads_of(args.k),
                           heads_of(args.v),
                           static_cast<const float*>(args.cos_sin.data),
                           args.cos_sin.stride[0],
                           args.cos_sin.stride[1],
                           args.cos_sin.rows(),
                           args.positions,
                           args.slots,
                           args.cache.base,
                           args.cache.page_stride,
                           args.cache.page_tokens,
                           static_cast<std::int32_t>(args.q.dim[1]),
                           static_cast<std::int32_t>(args.k.dim[1]),
                           static_cast<std::int32_t>(args.q.cols() / 2)};
  const auto size = static_cast<std::int64_t>(size_of(args.q.dtype));
  const bool wide = rows_aligned(args.q) && rows_aligned(args.k) && rows_aligned(args.v) &&
                    rows_aligned(args.cos_sin) && p.half % kRowVector == 0 &&
                    reinterpret_cast<std::uintptr_t>(p.cache) % 16 == 0 &&
                    p.page_stride * size % 16 == 0;
  return dispatch_dtype(args.q.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    return wide ? launch<T, kRowVector>(p, args.q.rows(), stream)
                : launch<T, 1>(p, args.q.rows(), stream);
  });
}

}  // namespace tandem::cuda
