// out[t] = the ranks' part[t], one after another: all blocks read from all ranks, each every
// blocks-th piece of a row. Bound by the meeting, then by reading the others' parts.
#include <algorithm>

#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/collectives/collectives.h"
#include "gpu/cuda/collectives/meeting.cuh"
#include "gpu/cuda/elementwise/rows.cuh"

namespace tandem::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kVector = 4;

struct GatherParams {
  GroupEnd end;
  const float* part;
  std::int32_t cols;  // of the part
  float* out;
  std::int64_t out_stride;
  std::int32_t rows;
  std::int32_t width;  // of out
};

template <int V>
__device__ __forceinline__ void copy_row(const float* from, float* to, std::int32_t begin,
                                         std::int32_t end) {
  const auto first = static_cast<std::int32_t>(blockIdx.x * kThreads + threadIdx.x) * V;
  const auto step = static_cast<std::int32_t>(gridDim.x) * kThreads * V;
  for (std::int32_t i = begin + first; i < end; i += step) {
    ShownRow<V> row;
    row.read(from + i);
    float values[V];
#pragma unroll
    for (int j = 0; j < V; ++j) values[j] = row[j];
    store_row<V>(to + i, values);
  }
}

__global__ void __launch_bounds__(kThreads) all_gather(const __grid_constant__ GatherParams p) {
  __shared__ ShownParts shown;
  wait_for_previous_kernels();
  Meeting meeting(p.end);
  if (!meeting.meet(p.part, p.cols, shown)) return;
  meeting.end();
  allow_next_kernel();  // not before, as in all_reduce
  std::int32_t width = 0;
  for (std::int32_t r = 0; r < p.end.size; ++r) width += shown.cols[r];
  if (width != p.width) __trap();
  for (std::int32_t row = 0; row < p.rows; ++row) {
    float* to = p.out + row * p.out_stride;
    for (std::int32_t r = 0; r < p.end.size; ++r) {
      const std::int32_t cols = shown.cols[r];
      const float* const from = shown.at[r] + std::int64_t{row} * cols;
      const auto both = reinterpret_cast<std::uint64_t>(from) | reinterpret_cast<std::uint64_t>(to);
      const std::int32_t in_vectors = both % 16 == 0 ? cols / kVector * kVector : 0;
      copy_row<kVector>(from, to, 0, in_vectors);
      copy_row<1>(from, to, in_vectors, cols);
      to += cols;
    }
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
  // Enough blocks for one rank's piece of a row: several rows have each their turn.
  const std::int64_t pieces = ceil_div(ceil_div(args.out.cols(), end.size), kThreads * kVector);
  const auto blocks = std::clamp<std::int64_t>(pieces, 1, end.most_blocks);
  const LaunchShape shape{
      .grid = dim3(static_cast<unsigned>(blocks)), .block = dim3(kThreads), .overlap = true};
  return launch_kernel("all_gather", shape, stream, all_gather, p);
}

}  // namespace tandem::cuda
