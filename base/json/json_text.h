// JSON before it is parsed: nlohmann's parser bounds the nesting by memory alone, much that walks
// its result recurses, and its tree takes up to 36 times the bytes of the text.
#pragma once

#include <cstddef>
#include <string_view>

namespace tandem {

// How deep JSON from outside (requests, checkpoints) may nest.
inline constexpr int kMaxJsonDepth = 64;

// True if lists and objects stand more than `limit` deep in each other. `json` need not be JSON:
// whatever it says of other texts, their parser refuses them.
bool nests_deeper_than(std::string_view json, int limit);

// The most that the tree of a text from outside may take beside the text itself: two million
// numbers in a list, or 200,000 objects of one member.
inline constexpr std::size_t kMaxJsonTreeBytes = std::size_t{64} << 20;

// About how many bytes nlohmann's tree of `json` takes on the heap beside the characters of its
// strings, within twice the truth for texts of many values. `json` need not be JSON.
std::size_t json_tree_bytes(std::string_view json);

}  // namespace tandem
