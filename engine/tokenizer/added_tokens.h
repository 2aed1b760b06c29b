// The added tokens of tokenizer.json: special tokens and others that are matched literally in the
// text, before anything splits it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids/token_id.h"
#include "base/status.h"

namespace tandem {

struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool single_word = false;  // matches only outside of words
  bool lstrip = false;       // consumes the white space before it
  bool rstrip = false;       // consumes the white space after it
  bool normalized = false;   // matched in the normalized text
  bool special = false;
};

// Finds added tokens in a text: leftmost first, then longest. Immutable once filled, and then
// thread-safe.
class AddedTokenMatcher {
 public:
  struct Segment {
    std::size_t begin, end;
    TokenId id;  // kText: not an added token
  };
  static constexpr TokenId kText = -1;

  // `text` is the text to match (content, or content normalized); an empty one is ignored.
  void add(std::string_view text, const AddedToken& token);
  bool empty() const { return tokens_.empty(); }

  // Whether the text of a special token begins at text[pos], even if another token there is longer.
  bool special_begins(std::string_view text, std::size_t pos) const;
  // Splits the text at the added tokens; no segment is empty. O(text * longest token).
  std::vector<Segment> split(std::string_view text) const;

 private:
  struct Node {
    std::uint8_t byte = 0;
    std::int32_t token = -1;  // index in tokens_ of the token that ends here
    std::int32_t child = -1, sibling = -1;
  };
  struct Rules {
    TokenId id;
    bool single_word, lstrip, rstrip, special;
  };

  std::int32_t step(std::int32_t node, std::uint8_t byte) const;
  // Returns the longest token that starts at text[pos]: its index and its end; index -1 if there is
  // none.
  std::pair<std::int32_t, std::size_t> longest_at(std::string_view text, std::size_t pos) const;

  std::vector<Rules> tokens_;
  std::vector<Node> nodes_;
  std::array<std::int32_t, 256> roots_ = [] {
    std::array<std::int32_t, 256> roots{};
    roots.fill(-1);
    return roots;
  }();
};

}  // namespace tandem
