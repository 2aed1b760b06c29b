// Checks JSON before it is parsed: nlohmann's parser only limits nesting by memory, much code that
// walks its result recurses, and its tree takes up to 36 times the bytes of the text.
#pragma once

#include <cstddef>
#include <string_view>

namespace tandem {

// The maximum nesting of JSON from outside (requests, checkpoints).
inline constexpr int kMaxJsonDepth = 64;

// True if lists and objects are nested deeper than `limit`. `json` need not be JSON: the parser
// refuses other texts whatever this function returns.
bool nests_deeper_than(std::string_view json, int limit);

// The maximum size of the tree of a text from outside, in addition to the text: two million numbers
// in a list, or 200,000 objects of one member.
inline constexpr std::size_t kMaxJsonTreeBytes = std::size_t{64} << 20;

// An estimate of the heap bytes that nlohmann's tree of `json` takes besides the characters of its
// strings; right within a factor of two for texts of many values. `json` need not be JSON.
std::size_t json_tree_bytes(std::string_view json);

}  // namespace tandem
