// residual (+)= sum over ranks of part, then its norm: one kernel for the meeting, the sum, the
// addition and the norm. A block handles rows block, block + blocks, ...
//
// One shot: after the ranks have met, each reads all parts and adds them up by itself. Bound by the
// meeting's one-way trip over the link, then by the round trip of reading (ranks - 1) parts.
// Pushing each float in a word with the meeting's number, which needs no round trip, was not faster
// (us, two H200s, 1, 32, 128 rows of 8192: 6.1, 11.4, 28.7; this kernel: 5.8, 8.6, 18.6), as one
// GPU then has to write twice the bytes of a row. Nor was one store of a whole message behind a
// fence, instead of its address and then, with release, its number (6.0, 9.7, 18.8).
//
// Two shots, if reading that many parts costs more than a second meeting: the blocks with the same
// number on all ranks share their rows. Each rank's block adds up a share of the columns and stores
// the sums in its part, where no other rank reads; they meet again, and all read the sums.
// 2 (ranks - 1) / ranks parts cross the link; with two ranks that saves nothing. Shares of rows,
// used before, leave all work to one rank if a block has few rows: 26 us instead of 16 for 32 rows
// of 8192 on four H100s, 77 instead of 34 for 128.
//
// All ranks add in rank order, in float, as the host's twin does: residuals agree to the bit with
// it, between ranks, and between one and two shots. Norms are summed in thread order, which is the
// same on all ranks.
#include <algorithm>
#include <bit>

#include "gpu/cuda/base/dispatch.h"
#include "gpu/cuda/base/launch.h"
#include "gpu/cuda/collectives/collectives.h"
#include "gpu/cuda/collectives/meeting.cuh"
#include "gpu/cuda/elementwise/rows.cuh"

namespace tandem::cuda {
namespace {

constexpr int kMostThreads = 512;
// Contiguous elements per thread: 16 bytes of a part, so that a warp's elements are contiguous too.
// Over a link half a sector costs as much as a whole one (two H200s, 128 rows of 8192: 31 us with 8
// elements per thread, in two accesses of 16 bytes 32 bytes apart).
constexpr int kVector = 4;
constexpr int kMaxItems = 4;  // vectors of a row per thread

struct ReduceParams {
  GroupEnd end;
  float* part;
  float* residual;
  std::int64_t residual_stride;
  const float* weight;  // null: no norm
  void* out;
  std::int64_t out_stride;
  std::int32_t rows;
  std::int32_t width;
  float eps;
  bool accumulate;
  std::int32_t share;  // columns that each rank adds up for all ranks; 0: one shot
};

// sum[k] = the elements of all ranks at offsets[k], added up; 0 for negative offsets.
template <int V, int kItems>
__device__ __forceinline__ void add_up(const ShownParts& shown, std::int32_t size,
                                       const std::int64_t (&offsets)[kItems],
                                       float (&sum)[kItems][V]) {
  // The number of ranks whose elements are in flight at once. Four ranks of four items need too
  // many registers: 9.1 us instead of 8.0 for a row of 8192 on four H100s.
  constexpr int kRanks = kItems < kMaxItems ? 4 : 2;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
#pragma unroll
    for (int j = 0; j < V; ++j) sum[item][j] = 0;
  }
  for (std::int32_t first = 0; first < size; first += kRanks) {
    ShownRow<V> rows[kItems][kRanks];
#pragma unroll
    for (int r = 0; r < kRanks; ++r) {
#pragma unroll
      for (int item = 0; item < kItems; ++item) {
        if (first + r < size && offsets[item] >= 0) {
          rows[item][r].read(shown.at[first + r] + offsets[item]);
        }
      }
    }
#pragma unroll
    for (int r = 0; r < kRanks; ++r) {
#pragma unroll
      for (int item = 0; item < kItems; ++item) {
        if (first + r >= size || offsets[item] < 0) continue;
#pragma unroll
        for (int j = 0; j < V; ++j) sum[item][j] += rows[item][r][j];
      }
    }
  }
}

// Adds up this rank's share of the columns of the block's rows, in place.
template <int V>
__device__ __forceinline__ void add_up_share(const ReduceParams& p, const ShownParts& shown) {
  const std::int32_t end = min(p.width, (p.end.rank + 1) * p.share);
  for (auto row = static_cast<std::int32_t>(blockIdx.x); row < p.rows;
       row += static_cast<std::int32_t>(gridDim.x)) {
    for (std::int32_t i = p.end.rank * p.share + static_cast<std::int32_t>(threadIdx.x) * V;
         i < end; i += static_cast<std::int32_t>(blockDim.x) * V) {
      const std::int64_t at[1] = {std::int64_t{row} * p.width + i};
      float sum[1][V];
      add_up<V, 1>(shown, p.end.size, at, sum);
      store_row<V>(p.part + at[0], sum[0]);
    }
  }
}

// kHeld: a row stays in registers from its sum to its norm, and the weights are loaded before
// earlier kernels have ended. Otherwise the residual is read again.
template <typename Y, int V, int kItems, bool kHeld>
__global__ void __launch_bounds__(kMostThreads) all_reduce(const __grid_constant__ ReduceParams p) {
  static_assert(kHeld || kItems == 1);
  __shared__ ShownParts shown;
  // Rows take the two in turn, as the slowest warp may still read the previous row's.
  __shared__ float sums[2][kMostThreads / 32];
  const auto width_of_items = static_cast<std::int32_t>(blockDim.x) * V;
  const auto mine = static_cast<std::int32_t>(threadIdx.x) * V;
  float weight[kItems][V];
  const auto load_weight = [&](int item, std::int32_t i) {
    if (p.weight != nullptr && i < p.width) {
      load_row<V>(p.weight + i, weight[item]);
    }
  };
  if constexpr (kHeld) {
#pragma unroll
    for (int item = 0; item < kItems; ++item) load_weight(item, item * width_of_items + mine);
  }
  wait_for_previous_kernels();
  if (!p.end.shares_gpu) allow_next_kernel();

  Meeting meeting(p.end);
  if (!meeting.meet(p.part, p.width, shown)) return;
  if (p.share > 0) {
    add_up_share<V>(p, shown);
    if (!meeting.meet(p.part, p.width, shown)) return;
  }
  meeting.end();
  if (p.end.shares_gpu) allow_next_kernel();
  for (std::int32_t r = 0; r < p.end.size; ++r) {
    const bool aligned = V == 1 || reinterpret_cast<std::uint64_t>(shown.at[r]) % 16 == 0;
    if (shown.cols[r] != p.width || !aligned) __trap();
  }

  int turn = 0;
  for (auto row = static_cast<std::int32_t>(blockIdx.x); row < p.rows;
       row += static_cast<std::int32_t>(gridDim.x)) {
    float* const residual = p.residual + row * p.residual_stride;
    Y* const out = static_cast<Y*>(p.out) + row * p.out_stride;
    float squares = 0;
    float x[kItems][V];
    // Computes the row's new residual, x: this thread's elements from column `begin` on.
    const auto join = [&](std::int32_t begin) {
      std::int64_t at[kItems];
      float old[kItems][V];
#pragma unroll
      for (int item = 0; item < kItems; ++item) {
        const std::int32_t i = begin + item * width_of_items;
        at[item] = i < p.width ? std::int64_t{row} * p.width + i : -1;
        if (at[item] >= 0 && p.accumulate) load_row<V>(residual + i, old[item]);
      }
      if (p.share > 0) {
        ShownRow<V> sum[kItems];
#pragma unroll
        for (int item = 0; item < kItems; ++item) {
          const std::int32_t i = begin + item * width_of_items;
          if (at[item] >= 0) sum[item].read(shown.at[i / p.share] + at[item]);
        }
#pragma unroll
        for (int item = 0; item < kItems; ++item) {
#pragma unroll
          for (int j = 0; j < V; ++j) x[item][j] = sum[item][j];
        }
      } else {
        add_up<V, kItems>(shown, p.end.size, at, x);
      }
#pragma unroll
      for (int item = 0; item < kItems; ++item) {
        if (at[item] < 0) continue;
#pragma unroll
        for (int j = 0; j < V; ++j) {
          if (p.accumulate) x[item][j] = old[item][j] + x[item][j];
          squares += x[item][j] * x[item][j];
        }
        store_row<V>(residual + begin + item * width_of_items, x[item]);
      }
    };
    const auto scale = [&](int item, std::int32_t i, float factor) {
      if (i >= p.width) return;
#pragma unroll
      for (int j = 0; j < V; ++j) x[item][j] *= factor * weight[item][j];
      store_row<V>(out + i, x[item]);
    };

    if constexpr (kHeld) {
      join(mine);
    } else {
      for (std::int32_t i = mine; i < p.width; i += width_of_items) join(i);
    }
    if (p.weight == nullptr) continue;
    const float mean = block_sum(squares, sums[turn]) / static_cast<float>(p.width);
    turn ^= 1;
    const float factor = 1.0F / sqrtf(mean + p.eps);
    if constexpr (kHeld) {
#pragma unroll
      for (int item = 0; item < kItems; ++item) scale(item, item * width_of_items + mine, factor);
    } else {
      for (std::int32_t i = mine; i < p.width; i += width_of_items) {
        load_row<V>(residual + i, x[0]);
        load_weight(0, i);
        scale(0, i, factor);
      }
    }
  }
}

template <typename Y>
Status launch(const ReduceParams& p, bool wide, cudaStream_t stream) {
  const char* const what = "all_reduce";
  const std::int64_t vectors = wide ? p.width / kVector : p.width;
  const auto needed = static_cast<std::uint64_t>(ceil_div(vectors, kMostThreads));
  const std::int64_t items = wide ? static_cast<std::int64_t>(std::bit_ceil(needed)) : 1;
  const auto threads = static_cast<unsigned>(
      std::min<std::int64_t>(ceil_div(ceil_div(vectors, items), 32) * 32, kMostThreads));
  const LaunchShape shape{.grid = dim3(static_cast<unsigned>(std::min(p.rows, p.end.most_blocks))),
                          .block = dim3(threads),
                          .overlap = true};
  if (!wide) return launch_kernel(what, shape, stream, all_reduce<Y, 1, 1, false>, p);
  if (items > kMaxItems) {
    return launch_kernel(what, shape, stream, all_reduce<Y, kVector, 1, false>, p);
  }
  if (items > 2) {
    return launch_kernel(what, shape, stream, all_reduce<Y, kVector, kMaxItems, true>, p);
  }
  return items == 1 ? launch_kernel(what, shape, stream, all_reduce<Y, kVector, 1, true>, p)
                    : launch_kernel(what, shape, stream, all_reduce<Y, kVector, 2, true>, p);
}

// True if the bytes saved by two shots take longer than a second meeting. Measured on four H100s,
// in us, one and two shots, for 8, 16 and 32 rows of 8192: 11.7 and 13.7, 15.1 and 14.4, 21.3 and
// 18.1; this was with four ranks' elements in flight, which is a tenth slower (add_up).
bool pays_two_shots(std::int64_t bytes, std::int64_t ranks) {
  constexpr std::int64_t kMeetingBytes = 640 << 10;
  return bytes * (ranks - 1) - 2 * bytes * (ranks - 1) / ranks > kMeetingBytes;
}

}  // namespace

Status launch_all_reduce(const AllReduceArgs& args, const GroupEnd& end, cudaStream_t stream) {
  if (args.part.num_elements() == 0) return {};
  const bool norms = args.weight.rank != 0;
  ReduceParams p{};
  p.end = end;
  p.part = static_cast<float*>(args.part.data);
  p.residual = static_cast<float*>(args.residual.data);
  p.residual_stride = args.residual.stride[0];
  p.rows = static_cast<std::int32_t>(args.part.rows());
  p.width = static_cast<std::int32_t>(args.part.cols());
  p.accumulate = args.accumulate;
  if (pays_two_shots(args.part.num_elements() * 4, end.size)) {
    p.share = static_cast<std::int32_t>(ceil_div(ceil_div(p.width, end.size), kVector)) * kVector;
  }
  bool wide = p.width % kVector == 0 && rows_aligned(args.part) && rows_aligned(args.residual);
  if (!norms) return launch<float>(p, wide, stream);
  p.weight = static_cast<const float*>(args.weight.data);
  p.out = args.out.data;
  p.out_stride = args.out.stride[0];
  p.eps = args.eps;
  wide = wide && rows_aligned(args.weight) && rows_aligned(args.out);
  return dispatch_dtype(args.out.dtype, [&](auto out) {
    return launch<typename decltype(out)::type>(p, wide, stream);
  });
}

}  // namespace tandem::cuda
