// out[t] = the ranks' part[t], one after another: all blocks read from all ranks, each every
// blocks-th chunk of a rank's row. Bound by the meeting, then by reading the others' parts, of
// which a thread has several pieces on their way at once: a trip over the link is long.
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

struct GatherParams {
  GroupEnd end;
  const float* part;
  std::int32_t cols;  // of the part
  float* out;
  std::int64_t out_stride;
  std::int32_t rows;
  std::int32_t width;  // of out
};

// Elements [begin, end) of a row.
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

__global__ void __launch_bounds__(kThreads) all_gather(const __grid_constant__ GatherParams p) {
  __shared__ ShownParts shown;
  wait_for_previous_kernels();
  if (!p.end.shares_gpu) allow_next_kernel();
  Meeting meeting(p.end);
  if (!meeting.meet(p.part, p.cols, shown)) return;
  meeting.end();
  if (p.end.shares_gpu) allow_next_kernel();  // not before, as in all_reduce
  std::int32_t width = 0;
  std::int32_t widest = 0;
  for (std::int32_t r = 0; r < p.end.size; ++r) {
    width += shown.cols[r];
    widest = max(widest, shown.cols[r]);
  }
  if (width != p.width) __trap();
  const std::int32_t chunks = (widest + kChunk - 1) / kChunk;
  const std::int64_t all = std::int64_t{p.rows} * p.end.size * chunks;
  for (std::int64_t each = blockIdx.x; each < all; each += gridDim.x) {
    const auto r = static_cast<std::int32_t>(each / chunks % p.end.size);
    const std::int64_t row = each / chunks / p.end.size;
    const std::int32_t cols = shown.cols[r];
    const auto begin = static_cast<std::int32_t>(each % chunks) * kChunk;
    const std::int32_t end = min(cols, begin + kChunk);
    float* to = p.out + row * p.out_stride;
    for (std::int32_t before = 0; before < r; ++before) to += shown.cols[before];
    const float* const from = shown.at[r] + row * cols;
    const auto both = reinterpret_cast<std::uint64_t>(from) | reinterpret_cast<std::uint64_t>(to);
    const std::int32_t in_vectors = both % 16 == 0 ? max(begin, end / kVector * kVector) : begin;
    copy_piece<kVector>(from, to, begin, in_vectors);
    copy_piece<1>(from, to, in_vectors, end);
  }
}

}  // namespace

Status launch_all_gather(const AllGatherArgs& args, const GroupEnd& end, cudaStream_t stream) {
  if (args.out.num_elements() == 0) return {};
  const GatherParams p{end,
                       static_cast<const float*>(args.part.data),
                       static_cast<std::int32_t>(args.part.cols()),
                       static_cast<float*>(args.out.data),
                       args.out.stride[0],
                       static_cast<std::int32_t>(args.out.rows()),
                       static_cast<std::int32_t>(args.out.cols())};
  // By what all ranks agree on: the widths of their parts may differ.
  const std::int64_t chunks = ceil_div(ceil_div(args.out.cols(), end.size), kChunk);
  const std::int64_t all = args.out.rows() * end.size * chunks;
  const auto blocks = std::clamp<std::int64_t>(all, 1, end.most_blocks);
  const LaunchShape shape{
      .grid = dim3(static_cast<unsigned>(blocks)), .block = dim3(kThreads), .overlap = true};
  return launch_kernel("all_gather", shape, stream, all_gather, p);
}

}  // namespace tandem::cuda
