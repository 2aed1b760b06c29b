// The product by a packed weight (kernel/packed_block.cuh) for 1 to 16 rows of x, by the tensor
// cores' product of 16 x 8 x 16. A warp takes 16 or 32 rows of w and one slice of 128 columns of
// every stage.
//
// Per 16 rows and 32 columns of 4 bits and a column tile of x: 22 instructions for the codes, two
// products, one load of x, and four additions per scale.
#pragma once

#include <cstdint>

#include "gpu/cuda/gemm/packed/kernel/packed_block.cuh"

namespace tandem::cuda {

// Multiplies a warp's slice of a stage. kUnits: units of 32 columns that share a scale.
template <typename Codes, int kRowTiles, int kColTiles, int kUnits>
__device__ __forceinline__ void multiply_slice(const PackedParams& p, const PackedPlaces& places,
                                               std::uint32_t stage, std::uint32_t table,
                                               float (&sums)[kRowTiles][kColTiles][4]) {
  using Element = typename Codes::Element;
  constexpr int kUnitsOfPiece = Codes::kBits == 4 ? 4 : 2;
  constexpr int kEight = 8 * kPackedLineBytes;
  const auto number_of = [&](int r, int h, int g) {
    return places.number[r] + static_cast<unsigned>(8 * h + g * p.plan.scale_rows);
  };
  // Scales are on their way while products are computed.
  std::uint32_t scale_words[4 / kUnits][kRowTiles][2];
  if (p.row_scales == nullptr) {
#pragma unroll
    for (int i = 0; i < 8 * kRowTiles / kUnits; ++i) {
      const int r = i / 2 % kRowTiles;
      const int h = i % 2;
      const int g = i / (2 * kRowTiles);
      scale_words[g][r][h] = ScaleReader::load(p, stage, number_of(r, h, g));
    }
  }
  const ScaleReader reader(p, places.number[0]);
  uint4 pieces[kRowTiles][2];
#pragma unroll
  for (int g = 0; g < 4 / kUnits; ++g) {
    typename Codes::Zero zeros[kRowTiles][2];
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        zeros[r][h] = Codes::zero_of(p.zero);
        if (Codes::kHasZeros && p.zeros) {
          const auto at = static_cast<unsigned>(p.plan.zeros) + number_of(r, h, g);
          zeros[r][h] = Codes::zero_of(p.zero + load_byte(stage + at));
        }
      }
    }
    float part[kRowTiles][kColTiles][4];
#pragma unroll
    for (int v = 0; v < kUnits; ++v) {
      const int u = g * kUnits + v;
      if (u % kUnitsOfPiece == 0) {
        const auto flip = static_cast<unsigned>(u / kUnitsOfPiece * 64);
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            const auto eight = static_cast<unsigned>(h * kEight);
            pieces[r][h] = load_shared((stage + places.w[r] + eight) ^ flip);
          }
        }
      }
      std::uint32_t a[kRowTiles][2][Codes::kParts][4];
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          Codes::fragment(pieces[r][h], u, zeros[r][h], table, a[r][h]);
        }
      }
      const std::uint32_t x = (stage + places.x[u / 2]) ^ static_cast<unsigned>(u % 2 * 64);
#pragma unroll
      for (int c = 0; c < kColTiles; ++c) {
        std::uint32_t b[4];
        load_matrices(b, x + static_cast<unsigned>(c * kEight));
        if constexpr (kXFactorOf<Codes> != 0) {
#pragma unroll
          for (int i = 0; i < 4; ++i) b[i] = multiply_pairs<Element>(b[i], kXFactorOf<Codes>);
        }
#pragma unroll
        for (int i = 0; i < 2 * Codes::kParts; ++i) {
          const int s = i % 2;
#pragma unroll
          for (int r = 0; r < kRowTiles; ++r) {
            const auto& low = a[r][0][i / 2];
            const auto& high = a[r][1][i / 2];
            if (v == 0 && i == 0) {
              first_16x8x16<Element>(part[r][c], low[0], high[0], low[1], high[1], b[0], b[1]);
            } else {
              mma_16x8x16<Element>(part[r][c], low[2 * s], high[2 * s], low[2 * s + 1],
                                   high[2 * s + 1], b[2 * s], b[2 * s + 1]);
            }
          }
        }
      }
    }
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float scale = kFactorOf<Codes> *
                            (p.row_scales == nullptr ? reader.scale_of(scale_words[g][r][h]) : 1);
#pragma unroll
        for (int c = 0; c < kColTiles; ++c) {
#pragma unroll
          for (int e = 0; e < 2; ++e) sums[r][c][2 * h + e] += scale * part[r][c][2 * h + e];
        }
      }
    }
  }
}

template <typename Codes, int kRowTiles, int kColTiles, int kUnits>
__global__ void __launch_bounds__(kPackedThreads<kRowTiles, kColTiles>, 1)
    packed_gemm(const __grid_constant__ PackedMaps maps, const __grid_constant__ PackedParams p) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  multiply_block<Codes, kRowTiles, kColTiles, kUnits>(
      maps, p,
      [&](const PackedPlaces& places, int, std::uint32_t stage, std::uint32_t table,
          float(&sums)[kRowTiles][kColTiles][4]) {
        multiply_slice<Codes, kRowTiles, kColTiles, kUnits>(p, places, stage, table, sums);
      });
#endif
}

}  // namespace tandem::cuda
