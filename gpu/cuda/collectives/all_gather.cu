// out[t] = all ranks' part[t], concatenated. Every block reads from all ranks: one in `blocks` of
// the chunks of a rank's row. Bound by the meeting, then by reading the other ranks' parts; a
// thread keeps several loads in flight, because a round trip over the link takes long. If NCCL has
// gathered the parts (join), the same without the meeting.
#include <algorithm>

#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/collectives/collectives.h"
#include "gpu/cuda/collectives/meeting.cuh"
#include "gpu/cuda/elementwise/rows.cuh"

namespace tandem::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kVector = 4;
constexpr int kAhead = 4;
constexpr std::int32_t kChunk = kThreads * kVector * kAhead;

struct Gathered {
  float* out;
  std::int64_t stride;
  std::int32_t rows;
  std::int32_t width;
};

struct GatherParams {
  GroupEnd end;
  const float* part;
  std::int32_t cols;  // the part's number of columns
  Gathered to;
};

// Copies elements [begin, end) of a row.
template <int V>
__device__ __forceinline__ void copy_piece(const float* from, float* to, std::int32_t begin,
                                           std::int32_t end) {
  for (std::int32_t first = begin + static_cast<std::int32_t>(threadIdx.x) * V; first < end;
       first += kThreads * V * kAhead) {
    ShownRow<V> pieces[kAhead];
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      const std::int32_t i = first + a * kThreads * V;
      if (i < end) pieces[a].read(from + i);
    }
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      const std::int32_t i = first + a * kThreads * V;
      if (i >= end) continue;
      float values[V];
#pragma unroll
      for (int j = 0; j < V; ++j) values[j] = pieces[a][j];
      store_row<V>(to + i, values);
    }
  }
}

// Called by all blocks of the grid.
__device__ __forceinline__ void join_parts(const ShownParts& parts, std::int32_t size,
                                           const Gathered& g) {
  std::int32_t width = 0;
  std::int32_t widest = 0;
  for (std::int32_t r = 0; r < size; ++r) {
    width += parts.cols[r];
    widest = max(widest, parts.cols[r]);
  }
  if (width != g.width) __trap();
  const std::int32_t chunks = (widest + kChunk - 1) / kChunk;
  const std::int64_t all = std::int64_t{g.rows} * size * chunks;
  for (std::int64_t each = blockIdx.x; each < all; each += gridDim.x) {
    const auto r = static_cast<std::int32_t>(each / chunks % size);
    const std::int64_t row = each / chunks / size;
    const std::int32_t cols = parts.cols[r];
    const auto begin = static_cast<std::int32_t>(each % chunks) * kChunk;
    const std::int32_t end = min(cols, begin + kChunk);
    float* to = g.out + row * g.stride;
    for (std::int32_t before = 0; before < r; ++before) to += parts.cols[before];
    const float* const from = parts.at[r] + row * cols;
    const auto both = reinterpret_cast<std::uint64_t>(from) | reinterpret_cast<std::uint64_t>(to);
    const std::int32_t in_vectors = both % 16 == 0 ? max(begin, end / kVector * kVector) : begin;
    copy_piece<kVector>(from, to, begin, in_vectors);
    copy_piece<1>(from, to, in_vectors, end);
  }
}

__global__ void __launch_bounds__(kThreads) all_gather(const __grid_constant__ GatherParams p) {
  __shared__ ShownParts shown;
  wait_for_previous_kernels();
  if (!p.end.shares_gpu) allow_next_kernel();
  Meeting meeting(p.end);
  if (!meeting.meet(p.part, p.cols, shown)) return;
  meeting.end();
  if (p.end.shares_gpu) allow_next_kernel();  // not earlier, for the reason in all_reduce
  join_parts(shown, p.end.size, p.to);
}

__global__ void __launch_bounds__(kThreads)
    join(const __grid_constant__ ShownParts parts, std::int32_t size, const Gathered to) {
  wait_for_previous_kernels();
  allow_next_kernel();
  join_parts(parts, size, to);
}

__global__ void mark(std::uint32_t* count, std::uint32_t* shown) {
  const std::uint32_t next = *count + 1;
  *count = next;
  // release: pairs with the watch's acquire
  store_release_system(shown, next);
}

Gathered gathered(const TensorView& out) {
  return {static_cast<float*>(out.data), out.stride[0], static_cast<std::int32_t>(out.rows()),
          static_cast<std::int32_t>(out.cols())};
}

// Uses only numbers that all ranks agree on: the widths of their parts may differ.
LaunchShape shape_of(const TensorView& out, std::int32_t size, std::int32_t most_blocks) {
  const std::int64_t chunks = ceil_div(ceil_div(out.cols(), size), kChunk);
  const std::int64_t all = out.rows() * size * chunks;
  const auto blocks = std::clamp<std::int64_t>(all, 1, most_blocks);
  return {.grid = dim3(static_cast<unsigned>(blocks)), .block = dim3(kThreads), .overlap = true};
}

}  // namespace

Status launch_all_gather(const AllGatherArgs& args, const GroupEnd& end, cudaStream_t stream) {
  if (args.out.num_elements() == 0) return {};
  const GatherParams p{end, static_cast<const float*>(args.part.data),
                       static_cast<std::int32_t>(args.part.cols()), gathered(args.out)};
  return launch_kernel("all_gather", shape_of(args.out, end.size, end.most_blocks), stream,
                       all_gather, p);
}

Status launch_join(const ShownParts& parts, std::int32_t size, const TensorView& out,
                   cudaStream_t stream) {
  return launch_kernel("all_gather", shape_of(out, size, kMostMeetingBlocks), stream, join, parts,
                       size, gathered(out));
}

Status launch_mark(std::uint32_t* count, std::uint32_t* shown, cudaStream_t stream) {
  const LaunchShape shape{.grid = dim3(1), .block = dim3(1)};
  return launch_kernel("a mark", shape, stream, mark, count, shown);
}

}  // namespace tandem::cuda
