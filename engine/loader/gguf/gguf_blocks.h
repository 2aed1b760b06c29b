// Parts of a GGUF block that more than one reader takes apart.
#pragma once

#include <cstddef>

namespace tandem {

// The scale and the offset of a group in Q4_K and Q5_K, 6 bits each.
struct GgufGroup {
  unsigned scale, offset;
};

// `numbers`: the block's 12 bytes of scales. The first four groups have their six bits in one byte;
// those of the others are a half of the last four bytes, and the two upper bits of the first eight.
constexpr GgufGroup gguf_group(const std::byte* numbers, std::size_t group) {
  const auto at = [&](std::size_t i) { return std::to_integer<unsigned>(numbers[i]); };
  if (group < 4) return {at(group) & 63U, at(group + 4) & 63U};
  return {(at(group + 4) & 15U) | at(group - 4) >> 6 << 4,
          at(group + 4) >> 4 | at(group) >> 6 << 4};
}

}  // namespace tandem
