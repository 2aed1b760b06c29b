// Groups of layers whose keys and values lie in pages of their own. Layers that read the keys of
// another layer are in its group and do not count as layers of it. Each sequence has a block table
// for each group, so that layers with a sliding window give back pages that no later row sees,
// while layers that see the whole context keep theirs.
//
// All groups have the same number of layers (the last of its kind may have fewer), so that any
// group can use any page of the pool. The tables of a sequence have the same length: page i of each
// holds the tokens from i * page_tokens on. A page that was given back leaves the pool's null page
// (PoolShape::null_page) in its place.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tandem {

struct KvGroups {
  std::int32_t whole = 1;     // groups that see the whole context; they come first
  std::int32_t windowed = 0;  // groups of layers with a window
  // For windowed groups. Keys that a row sees, itself included: the largest window of any layer.
  std::int64_t window = 0;
  std::int64_t step_rows = 0;  // the most rows of a sequence in a step (PoolLayout::pool sets it)

  std::int32_t count() const { return whole + windowed; }
  bool is_windowed(std::int32_t group) const { return group >= whole; }
  // The first key that the row at `position`, and rows after it, see in windowed layers.
  std::int64_t first_seen(std::int64_t position) const {
    return std::max<std::int64_t>(0, position - window + 1);
  }
  friend bool operator==(const KvGroups&, const KvGroups&) = default;
};

}  // namespace tandem
