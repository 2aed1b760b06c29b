// Rotary embedding of q and k, and the append of k and v to the cache, in one pass:
//   (x[a], x[b]) = (x[a] c - x[b] s, x[b] c + x[a] s) for each of n pairs (a, b),
//   cache[slot] = k, v.
// Grid: rows x chunks of the row's pairs. Bound by memory: q, k and v are read once, q and the
// cache are written once. Two kernels: if all of a head rotates as halves, a thread rotates or
// copies V pairs of one head; otherwise (a part of it, neighbours as pairs, angles of this step),
// it has one pair.
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
  const float* q_scale;  // null: none
  std::int64_t num_scales;
  std::int32_t half;   // d / 2
  std::int32_t pairs;  // n
  bool interleaved;
};

__device__ __forceinline__ float scale_of_query(const RopeAppendParams& p, std::int32_t position) {
  if (p.q_scale == nullptr) return 1;
  if (position < 0 || position >= p.num_scales) __trap();
  return __ldcg(p.q_scale + position);
}

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
  float scale = 1;
  std::int64_t slot = -1;
  if (is_query || is_key) {
    const std::int32_t position = __ldcg(p.positions + t);
    if (position < 0 || position >= p.num_positions) __trap();
    const float* const angles = p.cos_sin + position * p.position_stride + i;
    load_row<V>(angles, cosine);
    load_row<V>(angles + p.angle_stride, sine);
    if (is_query) scale = scale_of_query(p, position);
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
      low[j] = scale * (a * cosine[j] - b * sine[j]);
      high[j] = scale * (b * cosine[j] + a * sine[j]);
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

// Pair i < d/2 of a head is (i, i + n), or (2 i, 2 i + 1) if interleaved, for i < n; the elements
// behind the 2 n that rotate form the other pairs, as neighbours, which only move.
template <typename T>
__global__ void rope_append_pairs(RopeAppendParams p) {
  allow_next_kernel();
  const std::int32_t item = static_cast<std::int32_t>(blockIdx.y * kThreads + threadIdx.x);
  std::int32_t head = item / p.half;
  const std::int32_t i = item - head * p.half;
  if (head >= p.heads + 2 * p.kv_heads) return;
  const bool is_query = head < p.heads;
  const bool is_key = !is_query && head < p.heads + p.kv_heads;
  const HeadRows x = is_query ? p.q : is_key ? p.k : p.v;
  head -= is_query ? 0 : is_key ? p.heads : p.heads + p.kv_heads;
  const bool halves = i < p.pairs && !p.interleaved;
  const std::int32_t first = halves ? i : 2 * i;
  const std::int32_t second = halves ? i + p.pairs : 2 * i + 1;
  const bool rotates = i < p.pairs && (is_query || is_key);
  wait_for_previous_kernels();

  const std::int64_t t = blockIdx.x;
  T* const from = static_cast<T*>(x.data) + t * x.row_stride + head * x.head_stride;
  T a = from[first];
  T b = from[second];
  if (rotates) {
    const std::int64_t position = p.positions == nullptr ? t : p.positions[t];
    if (position < 0 || position >= p.num_positions) __trap();
    const float* const angles = p.cos_sin + position * p.position_stride + i;
    const float cosine = angles[0];
    const float sine = angles[p.angle_stride];
    const float x_a = to_float(a);
    const float x_b = to_float(b);
    a = from_float<T>(x_a * cosine - x_b * sine);
    b = from_float<T>(x_b * cosine + x_a * sine);
  }
  if (is_query) {
    const float scale = p.q_scale == nullptr ? 1.0F : scale_of_query(p, p.positions[t]);
    from[first] = from_float<T>(to_float(a) * scale);
    from[second] = from_float<T>(to_float(b) * scale);
    return;
  }
  const std::int64_t slot = p.slots[t];
  if (slot < 0) return;
  const std::int64_t page = slot / p.page_tokens;
  const std::int64_t offset = slot % p.page_tokens;
  const std::int64_t plane = (is_key ? 0 : p.kv_heads) + head;
  T* const to = static_cast<T*>(p.cache) + page * p.page_stride +
                (plane * p.page_tokens + offset) * (2 * std::int64_t{p.half});
  to[first] = a;
  to[second] = b;
}

template <typename T>
Status launch_pairs(const RopeAppendParams& p, std::int64_t rows, cudaStream_t stream) {
  const std::int64_t items = (p.heads + 2 * std::int64_t{p.kv_heads}) * p.half;
  const dim3 grid(static_cast<unsigned>(rows), static_cast<unsigned>(ceil_div(items, kThreads)));
  return launch_kernel("rope_append", {.grid = grid, .block = dim3(kThreads), .overlap = true},
                       stream, rope_append_pairs<T>, p);
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
  const bool rotates = args.cos_sin.rank != 0;
  const std::int64_t kv_heads = args.k.rank == 0 ? 0 : args.k.dim[1];
  const RopeAppendParams p{heads_of(args.q),
                           heads_of(args.k),
                           heads_of(args.v),
                           static_cast<const float*>(args.cos_sin.data),
                           rotates ? args.cos_sin.stride[0] : 0,
                           rotates ? args.cos_sin.stride[1] : 0,
                           rotates ? args.cos_sin.rows() : 0,
                           args.positions,
                           args.slots,
                           args.cache.base,
                           args.cache.page_stride,
                           args.cache.page_tokens,
                           static_cast<std::int32_t>(args.q.dim[1]),
                           static_cast<std::int32_t>(kv_heads),
                           static_cast<const float*>(args.q_scale.data),
                           args.q_scale.rank == 0 ? 0 : args.q_scale.dim[0],
                           static_cast<std::int32_t>(args.q.cols() / 2),
                           static_cast<std::int32_t>(rotates ? args.cos_sin.cols() : 0),
                           args.interleaved};
  const auto size = static_cast<std::int64_t>(size_of(args.q.dtype));
  const bool wide = rows_aligned(args.q) && rows_aligned(args.k) && rows_aligned(args.v) &&
                    rotates && rows_aligned(args.cos_sin) && p.half % kRowVector == 0 &&
                    reinterpret_cast<std::uintptr_t>(p.cache) % 16 == 0 &&
                    p.page_stride * size % 16 == 0;
  return dispatch_dtype(args.q.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    // A table without positions is of this step, and may be read only once earlier kernels have
    // ended.
    if (p.pairs != p.half || p.interleaved || p.positions == nullptr) {
      return launch_pairs<T>(p, args.q.rows(), stream);
    }
    return wide ? launch<T, kRowVector>(p, args.q.rows(), stream)
                : launch<T, 1>(p, args.q.rows(), stream);
  });
}

}  // namespace tandem::cuda
