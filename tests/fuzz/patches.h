// Bytes into changes of a region: u16 offset, u8 length, that many bytes, and so on. Most of what
// an engine writes stays, then, and readers go on past their first look.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>

#include "tests/fuzz/targets.h"

namespace tandem::fuzz {

// `place` turns a patch's offset into one of the region.
inline void apply_patches(Bytes patches, std::span<std::byte> region,
                          const std::function<std::size_t(std::size_t)>& place) {
  while (patches.size() > 3) {
    std::size_t offset = std::to_integer<std::size_t>(patches[0]);
    offset |= std::to_integer<std::size_t>(patches[1]) << 8;
    const std::size_t at = place(offset);
    std::size_t length = std::to_integer<std::size_t>(patches[2]);
    patches = patches.subspan(3);
    length = std::min(length, patches.size());
    if (at < region.size()) {
      std::memcpy(region.data() + at, patches.data(), std::min(length, region.size() - at));
    }
    patches = patches.subspan(length);
  }
}

}  // namespace tandem::fuzz
