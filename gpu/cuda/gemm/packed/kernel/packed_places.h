// Where a lane finds its operands in a stage of a product by a packed weight.
//
// Lanes 4 i .. 4 i + 3 hold row i / 2 + i % 2 * 4 of eight: the two rows that a quarter of a warp
// reads together then lie four lines apart, and the swizzle spreads them over all banks.
#pragma once

#include <cstdint>

#include "gpu/cuda/gemm/packed/kernel/packed_plan.h"

namespace tandem::cuda {

// The row of eight whose codes and sums a lane holds.
TANDEM_HOST_DEVICE constexpr int row_of_lane(int lane) {
  return lane / 8 + lane / 4 % 2 * 4;
}

// The offset of 16 bytes in lines of 128 that begin at a multiple of 1024, as the copy engine
// swizzles them.
TANDEM_HOST_DEVICE constexpr std::uint32_t swizzled(int line, int piece) {
  return static_cast<std::uint32_t>(line * kPackedLineBytes + ((piece ^ (line & 7)) << 4));
}

// Offsets in a stage; the same in every stage of a group of columns of y.
struct PackedPlaces {
  // For each of two parts, 16 rows of the warp's 32, or in a warpgroup's warp two slices of 16
  // rows: 16 bytes of the lane's row of the first eight (8 bits: the others of the slice have bit 6
  // of the address flipped), and the index of its first group's scale and zero. The second eight
  // rows are 1024 bytes, or 8 numbers, further.
  std::uint32_t w[2];
  std::uint32_t number[2];
  // Row lane % 8 of x: piece lane / 8 of each of the slice's two lines. The next 32 columns have
  // bit 6 flipped, the next eight rows are 1024 bytes further.
  std::uint32_t x[2];

  // `column_warp`: of the stage's columns. `first`: the row of w in the first slot; `first_up`: of
  // up's, where there are halves.
  TANDEM_HOST_DEVICE constexpr PackedPlaces(const PackedPlan& plan, int bits, bool halves,
                                            int groups_of_slice, int row_warp, int column_warp,
                                            int lane, int first, int first_up)
      : w{}, number{}, x{} {
    const int up_slot = plan.slots() / 2;
    for (int part = 0; part < 2; ++part) {
      const int tile = plan.row_tiles == 1 ? row_warp : row_warp * 2 + part;
      const int slice = plan.is_wide() ? column_warp * 2 + part : column_warp;
      const int slot = tile * 16 + row_of_lane(lane);
      const bool is_up = halves && slot >= up_slot;
      // Slots that have no row read what follows; nothing reads their sums.
      const int row = is_up ? slot - up_slot : slot;
      const int slab = bits == 4 ? slice / 2 : slice;
      const int piece = (bits == 4 ? slice % 2 * 4 : 0) + lane % 4;
      w[part] = static_cast<std::uint32_t>(is_up ? plan.up : 0) +
                swizzled(slab * plan.group_rows + row, piece);
      const int skipped = (is_up ? first_up : first) % kPackedScaleStep;
      number[part] = static_cast<std::uint32_t>(slice * groups_of_slice * plan.scale_rows +
                                                skipped + row + (is_up ? plan.up_numbers : 0));
    }
    for (int half = 0; half < 2; ++half) {
      const int row = lane % 8 < plan.x_rows ? lane % 8 : plan.x_rows - 1;
      x[half] = static_cast<std::uint32_t>(plan.x) +
                swizzled((column_warp * plan.slices * 2 + half) * plan.x_rows + row, lane / 8);
    }
  }
};

}  // namespace tandem::cuda
