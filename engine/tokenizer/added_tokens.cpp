#include "engine/tokenizer/added_tokens.h"

#include <algorithm>

#include "engine/tokenizer/utf8.h"

namespace tandem {
namespace {

bool word_before(std::string_view text, std::size_t pos) {
  if (pos == 0) return false;
  std::size_t at = utf8::previous(text, pos);
  return utf8::is_word(utf8::next(text, at));
}

bool word_after(std::string_view text, std::size_t pos) {
  return pos < text.size() && utf8::is_word(utf8::next(text, pos));
}

// Returns the start of the white space that ends at `pos`, but at least `floor`.
std::size_t space_begin(std::string_view text, std::size_t pos, std::size_t floor) {
  while (pos > floor) {
    const std::size_t before = utf8::previous(text, pos);
    std::size_t at = before;
    if (!utf8::is_white_space(utf8::next(text, at))) break;
    pos = before;
  }
  return pos;
}

std::size_t space_end(std::string_view text, std::size_t pos) {
  while (pos < text.size()) {
    std::size_t after = pos;
    if (!utf8::is_white_space(utf8::next(text, after))) break;
    pos = after;
  }
  return pos;
}

}  // namespace

std::int32_t AddedTokenMatcher::step(std::int32_t node, std::uint8_t byte) const {
  std::int32_t child = nodes_[static_cast<std::size_t>(node)].child;
  while (child >= 0 && nodes_[static_cast<std::size_t>(child)].byte != byte)
    child = nodes_[static_cast<std::size_t>(child)].sibling;
  return child;
}

void AddedTokenMatcher::add(std::string_view text, const AddedToken& token) {
  if (text.empty()) return;
  std::int32_t node = -1;
  for (const char c : text) {
    const auto byte = static_cast<std::uint8_t>(c);
    std::int32_t next = node < 0 ? roots_[byte] : step(node, byte);
    if (next < 0) {
      next = static_cast<std::int32_t>(nodes_.size());
      nodes_.push_back({byte, -1, -1, -1});
      if (node < 0) {
        roots_[byte] = next;
      } else {
        Node& parent = nodes_[static_cast<std::size_t>(node)];
        nodes_.back().sibling = parent.child;
        parent.child = next;
      }
    }
    node = next;
  }
  std::int32_t& end = nodes_[static_cast<std::size_t>(node)].token;
  if (end >= 0) return;  // two tokens normalize to the same text: the first one is used
  end = static_cast<std::int32_t>(tokens_.size());
  tokens_.push_back({token.id, token.single_word, token.lstrip, token.rstrip, token.special});
}

std::pair<std::int32_t, std::size_t> AddedTokenMatcher::longest_at(std::string_view text,
                                                                   std::size_t pos) const {
  std::int32_t token = -1;
  std::size_t end = pos;
  std::int32_t node = roots_[static_cast<std::uint8_t>(text[pos])];
  while (node >= 0) {
    ++pos;
    if (const Node& n = nodes_[static_cast<std::size_t>(node)]; n.token >= 0) {
      token = n.token;
      end = pos;
    }
    if (pos == text.size()) break;
    node = step(node, static_cast<std::uint8_t>(text[pos]));
  }
  return {token, end};
}

bool AddedTokenMatcher::special_begins(std::string_view text, std::size_t pos) const {
  std::int32_t node = roots_[static_cast<std::uint8_t>(text[pos])];
  while (node >= 0) {
    const std::int32_t token = nodes_[static_cast<std::size_t>(node)].token;
    if (token >= 0 && tokens_[static_cast<std::size_t>(token)].special) return true;
    if (++pos == text.size()) return false;
    node = step(node, static_cast<std::uint8_t>(text[pos]));
  }
  return false;
}

std::vector<AddedTokenMatcher::Segment> AddedTokenMatcher::split(std::string_view text) const {
  std::vector<Segment> segments;
  std::size_t done = 0;  // end of the last segment
  std::size_t pos = 0;
  while (pos < text.size() && !tokens_.empty()) {
    const auto [token, match_end] = longest_at(text, pos);
    if (token < 0) {
      ++pos;
      continue;
    }
    const Rules& rules = tokens_[static_cast<std::size_t>(token)];
    const std::size_t begin = pos;
    pos = match_end;
    if (rules.single_word && (word_before(text, begin) || word_after(text, match_end))) continue;
    // White space that an earlier token consumed is not consumed again.
    const std::size_t start =
        rules.lstrip ? space_begin(text, begin, std::min(begin, done)) : begin;
    const std::size_t end = rules.rstrip ? space_end(text, match_end) : match_end;
    if (start > done) segments.push_back({done, start, kText});
    segments.push_back({start, end, rules.id});
    done = end;
  }
  if (done < text.size()) segments.push_back({done, text.size(), kText});
  return segments;
}

}  // namespace tandem
