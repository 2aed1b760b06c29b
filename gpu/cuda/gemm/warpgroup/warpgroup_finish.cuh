// Finishes and stores the sums that a thread of the GEMM for 33 to 64 rows holds.
#pragma once

#include <cstdint>
#include <type_traits>

#include "gpu/cuda/base/async_copy.cuh"
#include "gpu/cuda/base/element.cuh"
#include "gpu/cuda/elementwise/activation.cuh"
#include "gpu/cuda/gemm/warpgroup/warpgroup.cuh"
#include "gpu/cuda/gemm/warpgroup/warpgroup_share.cuh"

namespace tandem::cuda {

// A thread's results: rows t and t + 8, columns 8 j + {0, 1} counted from w's row `o`, for tiles
// j = n * cluster + rank.
struct WarpgroupResults {
  int t, o;
  int columns;  // the number of columns that exist
  int rank;
  int tiles;             // n is below this
  std::uint32_t own;     // this thread's 16 bytes in [tiles][128], in its own sums
  std::uint32_t others;  // likewise in the partner's sums
  std::uint32_t others_full;
};

// The number of tiles whose reads of y are in flight together: as many as a block of a cluster has
// in a product of 4096 columns. Four would make kernels a fifth larger.
constexpr int kWarpgroupBatch = 2;

// Loads the old values of y for the tiles from `first` on.
template <typename Y>
__device__ __forceinline__ void load_y(const WarpgroupParams& p, const WarpgroupResults& results,
                                       int first, float (&held)[kWarpgroupBatch][4]) {
#pragma unroll
  for (int b = 0; b < kWarpgroupBatch; ++b) {
    const int column = 8 * ((first + b) * p.plan.cluster + results.rank);
    const Y* const y = static_cast<const Y*>(p.y) + results.t * p.y_stride + results.o + column;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (results.t + i / 2 * 8 >= p.rows || column + i % 2 >= results.columns) continue;
      held[b][i] = to_float(y[i / 2 * 8 * p.y_stride + i % 2]);
    }
  }
}

// Adds sums, bias and y's old values, and stores. `early`: old values of an f32 y, first tiles.
template <typename Y, typename Element>
__device__ __forceinline__ void finish_sums(const WarpgroupParams& p,
                                            const WarpgroupResults& results,
                                            const float (&early)[kWarpgroupBatch][4]) {
  const int cluster = p.plan.cluster;
  const auto counts = [&](int row, int column) { return row < p.rows && column < results.columns; };
#pragma unroll 1
  for (int first = 0; first < results.tiles; first += kWarpgroupBatch) {
    float v[kWarpgroupBatch][4] = {};
    Y* to[kWarpgroupBatch];
#pragma unroll
    for (int b = 0; b < kWarpgroupBatch; ++b) {
      const int column = 8 * ((first + b) * cluster + results.rank);
      to[b] = static_cast<Y*>(p.y) + results.t * p.y_stride + results.o + column;
      if (p.bias != nullptr) {
        const Element* const bias = static_cast<const Element*>(p.bias) + results.o + column;
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          if (column + e < results.columns) v[b][e] = v[b][2 + e] = to_float(bias[e]);
        }
      }
    }
    if (p.accumulate) {
      float held[kWarpgroupBatch][4] = {};
      const bool loaded = std::is_same_v<Y, float> && first == 0;
      if (!loaded) load_y<Y>(p, results, first, held);
#pragma unroll
      for (int b = 0; b < kWarpgroupBatch; ++b) {
#pragma unroll
        for (int i = 0; i < 4; ++i) v[b][i] += loaded ? early[b][i] : held[b][i];
      }
    }
    if (cluster > 1) barrier_wait(results.others_full, 0);
#pragma unroll
    for (int b = 0; b < kWarpgroupBatch; ++b) {
      if (first + b >= results.tiles) break;
      const int column = 8 * ((first + b) * cluster + results.rank);
      const auto at = static_cast<unsigned>((first + b) * kWarpgroupTileBytes);
      const auto add = [&](std::uint32_t sums) {
        const uint4 sum = load_shared(sums + at);
        v[b][0] += __uint_as_float(sum.x), v[b][1] += __uint_as_float(sum.y);
        v[b][2] += __uint_as_float(sum.z), v[b][3] += __uint_as_float(sum.w);
      };
      add(results.own);
      if (cluster > 1) add(results.others);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        Y* const row = to[b] + h * 8 * p.y_stride;
        const Vec<Y, 2> pair{from_float<Y>(v[b][2 * h]), from_float<Y>(v[b][2 * h + 1])};
        if (!counts(results.t + h * 8, column)) continue;
        if (p.pairs) {  // the columns and their end are even
          *reinterpret_cast<Vec<Y, 2>*>(row) = pair;
        } else {
          row[0] = pair.element[0];
          if (column + 1 < results.columns) row[1] = pair.element[1];
        }
      }
    }
  }
}

// Stores sums unchanged, in pairs, in a block that has all of them.
template <typename Element, int kN>
__device__ __forceinline__ void store_sums(const WarpgroupParams& p,
                                           const WarpgroupResults& results,
                                           const float (&d)[kN / 2]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int t = results.t + 8 * h;
    if (t >= p.rows) return;
    Element* const to = static_cast<Element*>(p.y) + t * p.y_stride + results.o;
#pragma unroll
    for (int j = 0; j < kN / 8; ++j) {
      if (8 * j >= results.columns) break;
      *reinterpret_cast<Vec<Element, 2>*>(to + 8 * j) = {from_float<Element>(d[4 * j + 2 * h]),
                                                         from_float<Element>(d[4 * j + 2 * h + 1])};
    }
  }
}

// The end of a product in swiglu: the first warpgroup has gate, the second up. Each finishes every
// second tile; it leaves its part of the other tiles at `mine`, [tiles][128] of 16 bytes, for the
// other warpgroup, which leaves its own at `theirs`.
template <typename Element, int kN>
__device__ __forceinline__ void finish_swiglu(const WarpgroupParams& p,
                                              const WarpgroupResults& results,
                                              const float (&d)[kN / 2], bool has_gate,
                                              std::uint32_t mine, std::uint32_t theirs) {
  const auto halve = [](float sum) { return to_float(from_float<Element>(sum)); };
#pragma unroll
  for (int j = 0; j < kN / 8; j += 2) {
    if (j >= results.tiles) break;
    const float* const even = &d[4 * j];
    const float* const odd = even + 4;
    store_shared(mine + static_cast<unsigned>(j / 2 * kWarpgroupTileBytes),
                 has_gate ? odd[0] : even[0], has_gate ? odd[1] : even[1],
                 has_gate ? odd[2] : even[2], has_gate ? odd[3] : even[3]);
  }
  meet<kWarpgroupConsumers * 32>();
  Element* const row = static_cast<Element*>(p.y) + results.t * p.y_stride + results.o;
#pragma unroll
  for (int j = 0; j < kN / 8; j += 2) {
    if (j >= results.tiles) break;
    const uint4 bits = load_shared(theirs + static_cast<unsigned>(j / 2 * kWarpgroupTileBytes));
    const float other[4] = {__uint_as_float(bits.x), __uint_as_float(bits.y),
                            __uint_as_float(bits.z), __uint_as_float(bits.w)};
    const int column = 8 * j + (has_gate ? 0 : 8);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      Vec<Element, 2> pair;
#pragma unroll
      for (int i = 2 * h; i < 2 * h + 2; ++i) {
        const float own = has_gate ? d[4 * j + i] : d[4 * j + 4 + i];
        const float gate = halve(has_gate ? own : other[i]);
        const float active = p.gelu ? gelu_tanh(gate) : silu(gate);
        pair.element[i % 2] = from_float<Element>(active * halve(has_gate ? other[i] : own));
      }
      if (results.t + 8 * h >= p.rows || column >= results.columns) continue;
      Element* const to = row + 8 * h * p.y_stride + column;
      if (p.pairs) {  // the columns and their end are even
        *reinterpret_cast<Vec<Element, 2>*>(to) = pair;
      } else {
        to[0] = pair.element[0];
        if (column + 1 < results.columns) to[1] = pair.element[1];
      }
    }
  }
}

}  // namespace tandem::cuda
