// Applies an input as changes of a region: u16 offset, u8 length, that many bytes, and so on. This
// keeps most of what an engine writes, so readers get past their first checks. The destructor
// undoes only these changes, because regions are large and inputs many.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <span>
#include <vector>

#include "tests/fuzz/targets.h"

namespace tandem::fuzz {

class Patches {
 public:
  // `place` maps a patch's offset to one in the region.
  Patches(Bytes patches, std::span<std::byte> region,
          const std::function<std::size_t(std::size_t)>& place) {
    while (patches.size() > 3) {
      std::size_t offset = std::to_integer<std::size_t>(patches[0]);
      offset |= std::to_integer<std::size_t>(patches[1]) << 8;
      const std::size_t at = place(offset);
      std::size_t length = std::to_integer<std::size_t>(patches[2]);
      patches = patches.subspan(3);
      length = std::min(length, patches.size());
      if (at < region.size()) {
        patch(region.subspan(at, std::min(length, region.size() - at)), patches);
      }
      patches = patches.subspan(length);
    }
  }
  ~Patches() {
    while (!changes_.empty()) {  // in reverse order, because patches may overlap
      const Change& change = changes_.back();
      std::memcpy(change.at.data(), change.before.data(), change.before.size());
      changes_.pop_back();
    }
  }
  Patches(const Patches&) = delete;
  Patches& operator=(const Patches&) = delete;

 private:
  struct Change {
    std::span<std::byte> at;
    std::vector<std::byte> before;
  };
  void patch(std::span<std::byte> at, Bytes bytes) {
    if (at.empty()) return;
    changes_.push_back({at, {at.begin(), at.end()}});
    std::memcpy(at.data(), bytes.data(), at.size());
  }

  std::vector<Change> changes_;
};

}  // namespace tandem::fuzz
