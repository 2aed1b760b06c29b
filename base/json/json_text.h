// JSON before it is parsed: nlohmann's parser bounds the nesting by memory alone, and much that
// walks its result recurses.
#pragma once

#include <string_view>

namespace tandem {

// How deep JSON from outside (requests, checkpoints) may nest.
inline constexpr int kMaxJsonDepth = 64;

// True if lists and objects stand more than `limit` deep in each other. `json` need not be JSON:
// whatever it says of other texts, their parser refuses them.
bool nests_deeper_than(std::string_view json, int limit);

}  // namespace tandem
