// The product by a packed weight (kernel/packed_block.cuh) for 17 to 64 rows of x, where the tensor
// cores' smaller product is the bound. A warpgroup multiplies 64 rows of w, made in registers as
// the row operand, by all rows of x in shared memory: each code is dequantised once. It takes two
// slices of 128 columns of every stage.
//
// The 64 rows of w make blocks uneven, and each block reads all of x for its columns. So the plan
// weighs clusters of 1, 2 and 4 blocks, which share columns out: fewer columns are less x, and more
// rows fill up sixty-fours.
#pragma once

#include <cstdint>

#include "gpu/cuda/gemm/packed/kernel/packed_block.cuh"
#include "gpu/cuda/gemm/packed/wide/wide_product.cuh"
#include "gpu/cuda/gemm/warpgroup/warpgroup.cuh"

namespace tandem::cuda {

template <typename Codes, int kColTiles, int kUnits>
__device__ __forceinline__ void multiply_wide(const PackedParams& p, const PackedPlaces& places,
                                              int column_warp, std::uint32_t stage,
                                              std::uint32_t table, float (&sums)[1][kColTiles][4]) {
  using Element = typename Codes::Element;
  constexpr int kUnitsOfPiece = Codes::kBits == 4 ? 4 : 2;
  constexpr int kEight = 8 * kPackedLineBytes;
  const int slab = p.plan.x_rows * kPackedLineBytes;
  const ScaleReader reader(p, places.number[0]);
#pragma unroll
  for (int slice = 0; slice < 2; ++slice) {
    const auto number_of = [&](int h, int g) {
      return places.number[slice] + static_cast<unsigned>(8 * h + g * p.plan.scale_rows);
    };
    std::uint32_t scale_words[4 / kUnits][2];
    if (p.row_scales == nullptr) {
#pragma unroll
      for (int i = 0; i < 8 / kUnits; ++i) {
        scale_words[i / 2][i % 2] = ScaleReader::load(p, stage, number_of(i % 2, i / 2));
      }
    }
    const std::uint64_t x = operand(
        stage + static_cast<unsigned>(p.plan.x + (column_warp * 2 + slice) * 2 * slab), kEight);
    uint4 pieces[2];
#pragma unroll
    for (int g = 0; g < 4 / kUnits; ++g) {
      typename Codes::Zero zeros[2];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        zeros[h] = Codes::zero_of(p.zero);
        if (Codes::kHasZeros && p.zeros) {
          const auto at = static_cast<unsigned>(p.plan.zeros) + number_of(h, g);
          zeros[h] = Codes::zero_of(p.zero + load_byte(stage + at));
        }
      }
      // [unit][part][step of 16 columns]: the row operand.
      std::uint32_t a[kUnits][Codes::kParts][2][4];
#pragma unroll
      for (int v = 0; v < kUnits; ++v) {
        const int u = g * kUnits + v;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          if (u % kUnitsOfPiece == 0) {
            const auto flip = static_cast<unsigned>(u / kUnitsOfPiece * 64);
            pieces[h] =
                load_shared((stage + places.w[slice] + static_cast<unsigned>(h * kEight)) ^ flip);
          }
          std::uint32_t codes[Codes::kParts][4];
          Codes::fragment(pieces[h], u, zeros[h], table, codes);
#pragma unroll
          for (int i = 0; i < Codes::kParts * 4; ++i) {
            a[v][i / 4][i % 4 / 2][i % 2 * 2 + h] = codes[i / 4][i % 4];
          }
        }
      }
#pragma unroll
      for (int i = 0; i < kUnits * Codes::kParts * 8; ++i) {
        // The operand is complete before the products begin, whatever the compiler reorders.
        asm volatile(""
                     : "+r"(a[i / (Codes::kParts * 8)][i / 8 % Codes::kParts][i / 4 % 2][i % 4]));
      }
      float part[4 * kColTiles];
      warpgroup_hold(part);
      warpgroup_begin();
#pragma unroll
      for (int i = 0; i < kUnits * Codes::kParts * 2; ++i) {
        const int v = i / (Codes::kParts * 2);
        const int u = g * kUnits + v;
        const int step = i % 2;
        const auto at = static_cast<unsigned>(u / 2 * (slab / 16)) +
                        static_cast<unsigned>(u % 2 * 2 + step) * kOperandColumns16;
        wide_product<Element>(part, a[v][i / 2 % Codes::kParts][step], x + at, i > 0);
      }
      warpgroup_commit();
      warpgroup_wait<0>();
      warpgroup_hold(part);
#pragma unroll
      for (int i = 0; i < kUnits * Codes::kParts * 8; ++i) {
        // The operand's registers are not taken for anything else before.
        asm volatile("" ::"r"(a[i / (Codes::kParts * 8)][i / 8 % Codes::kParts][i / 4 % 2][i % 4]));
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float scale = p.row_scales == nullptr ? reader.scale_of(scale_words[g][h]) : 1;
#pragma unroll
        for (int c = 0; c < kColTiles; ++c) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            sums[0][c][2 * h + e] += scale * part[4 * c + 2 * h + e];
          }
        }
      }
    }
  }
}

template <typename Codes, int kColTiles, int kUnits>
__global__ void __launch_bounds__(kPackedThreads<1, kColTiles>, 1)
    packed_gemm_wide(const __grid_constant__ PackedMaps maps,
                     const __grid_constant__ PackedParams p) {
  multiply_block<Codes, 1, kColTiles, kUnits>(
      maps, p,
      [&](const PackedPlaces& places, int column_warp, std::uint32_t stage, std::uint32_t table,
          float(&sums)[1][kColTiles][4]) {
        multiply_wide<Codes, kColTiles, kUnits>(p, places, column_warp, stage, table, sums);
      });
}

template <typename Codes, int kUnits>
PackedKernel select_wide_tiles(int col_tiles) {
  if (col_tiles == 4) return packed_gemm_wide<Codes, 4, kUnits>;
  return packed_gemm_wide<Codes, 8, kUnits>;
}

template <typename Codes>
PackedKernel select_wide_units(int col_tiles, int units) {
  if (units == 1) return select_wide_tiles<Codes, 1>(col_tiles);
  if (units == 2) return select_wide_tiles<Codes, 2>(col_tiles);
  return select_wide_tiles<Codes, 4>(col_tiles);
}

}  // namespace tandem::cuda
