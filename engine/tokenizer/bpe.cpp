#include "engine/tokenizer/bpe.h"

#include <algorithm>
#include <limits>

#include "engine/tokenizer/byte_level.h"
#include "engine/tokenizer/utf8.h"

namespace tandem {
namespace {

// For shorter words a scan for the lowest rank is faster than a heap.
constexpr std::size_t kShortWord = 48;
constexpr std::uint64_t kNoMerge = std::numeric_limits<std::uint64_t>::max();

std::uint64_t seam_key(char32_t left, char32_t right) {
  return static_cast<std::uint64_t>(left) << 32 | right;
}

std::optional<TokenId> id_of(const Bpe::Vocabulary& vocabulary, const std::string& token) {
  const auto it = vocabulary.find(token);
  if (it == vocabulary.end()) return std::nullopt;
  return it->second;
}

}  // namespace

Result<Bpe> Bpe::build(const Vocabulary& vocabulary, const std::vector<Merge>& merges,
                       const BpeOptions& options) {
  Bpe bpe;
  bpe.options_ = options;
  bpe.merges_ = IdMap(merges.size());
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const Merge& merge = merges[rank];
    const auto left = id_of(vocabulary, merge.left);
    const auto right = id_of(vocabulary, merge.right);
    const auto result = id_of(vocabulary, merge.left + merge.right);
    if (!left || !right || !result)
      return invalid("merge {} (\"{}\" and \"{}\") names a token that the vocabulary does not have",
                     rank, merge.left, merge.right);
    bpe.merges_.set(static_cast<std::uint64_t>(*left) << 32 | static_cast<std::uint32_t>(*right),
                    static_cast<std::uint64_t>(rank) << 32 | static_cast<std::uint32_t>(*result));
  }
  for (unsigned b = 0; b < 256; ++b)
    bpe.byte_tokens_[b] = id_of(vocabulary, fmt::format("<0x{:02X}>", b)).value_or(-1);
  bpe.learn_characters(vocabulary);
  if (!options.byte_level) bpe.learn_seams(merges, vocabulary);
  if (options.ignore_merges) {
    for (const auto& [token, id] : vocabulary) {
      if (!options.byte_level) {
        bpe.whole_.emplace(token, id);
      } else if (auto bytes = byte_level_bytes(token)) {
        bpe.whole_.emplace(std::move(*bytes), id);
      }
    }
  }
  return bpe;
}

void Bpe::learn_characters(const Vocabulary& vocabulary) {
  for (const auto& [token, id] : vocabulary) {
    if (token.empty()) continue;
    std::size_t pos = 0;
    const char32_t c = utf8::next(token, pos);
    if (pos != token.size()) continue;
    if (!options_.byte_level) {
      characters_.set(c, static_cast<std::uint64_t>(id));
    } else if (const auto bytes = byte_level_bytes(token)) {
      characters_.set(static_cast<std::uint8_t>((*bytes)[0]), static_cast<std::uint64_t>(id));
    }
  }
}

// Learns where a text may be cut: between two neighbouring known characters that no merged token
// contains side by side, because they can never be in one token. If no pre-tokenizer splits the
// text (Llama 2), this splits a long text into words and keeps merging fast.
void Bpe::learn_seams(const std::vector<Merge>& merges, const Vocabulary& vocabulary) {
  auto stands_for_itself = [&](const std::string& token) {
    const bool byte_token = token.size() == 6 && token.starts_with("<0x");
    return vocabulary.at(token) != options_.unk && !(options_.byte_fallback && byte_token);
  };
  for (const Merge& merge : merges) {
    // Merges of replacement characters would join characters that the token's text does not show.
    if (!stands_for_itself(merge.left) || !stands_for_itself(merge.right)) return;
    const std::string text = merge.left + merge.right;
    char32_t left = 0;
    for (std::size_t pos = 0; pos < text.size();) {
      const bool first = pos == 0;
      const char32_t right = utf8::next(text, pos);
      if (!first) joined_.set(seam_key(left, right), 1);
      left = right;
    }
  }
  seams_known_ = true;
}

void Bpe::encode(std::string_view word, std::vector<TokenId>& out) const {
  if (options_.ignore_merges) {
    if (const auto it = whole_.find(word); it != whole_.end()) {
      out.push_back(it->second);
      return;
    }
  }
  if (!options_.byte_level) return encode_characters(word, out);

  // Thread-local, to reuse its memory: words are short and many, and any thread encodes. Its
  // contents are not used after the call.
  thread_local std::vector<TokenId> symbols;
  symbols.clear();
  Unknown unknown;
  for (const char c : word) {
    const auto byte = static_cast<std::uint8_t>(c);
    if (const std::uint64_t* id = characters_.find(byte)) {
      if (unknown.pending) symbols.push_back(*options_.unk);
      unknown.pending = false;
      symbols.push_back(static_cast<TokenId>(*id));
    } else {
      std::string character;
      utf8::append(character, byte_level_characters()[byte]);
      add_unknown(character, unknown, symbols);
    }
  }
  if (unknown.pending) symbols.push_back(*options_.unk);
  merge(symbols, out);
}

void Bpe::encode_characters(std::string_view word, std::vector<TokenId>& out) const {
  thread_local std::vector<TokenId> symbols;  // as in encode()
  symbols.clear();
  Unknown unknown;
  char32_t left = 0;
  bool left_known = false;
  for (std::size_t pos = 0; pos < word.size();) {
    const std::size_t begin = pos;
    const char32_t c = utf8::next(word, pos);
    const std::uint64_t* id = characters_.find(c);
    if (id != nullptr) {
      if (unknown.pending) symbols.push_back(*options_.unk);
      unknown.pending = false;
      if (seams_known_ && left_known && joined_.find(seam_key(left, c)) == nullptr) {
        merge(symbols, out);
        symbols.clear();
      }
      symbols.push_back(static_cast<TokenId>(*id));
    } else {
      add_unknown(word.substr(begin, pos - begin), unknown, symbols);
    }
    left = c;
    left_known = id != nullptr;
  }
  if (unknown.pending) symbols.push_back(*options_.unk);
  merge(symbols, out);
}

// An unknown token is appended when the next known character arrives, so that neighbours can be
// fused. Bytes of a byte fallback do not count as known characters: a pending unknown token is
// appended after them. The reference implementation does the same.
void Bpe::add_unknown(std::string_view bytes, Unknown& unknown,
                      std::vector<TokenId>& symbols) const {
  auto token_of = [&](char c) { return byte_tokens_[static_cast<std::uint8_t>(c)]; };
  if (options_.byte_fallback &&
      std::all_of(bytes.begin(), bytes.end(), [&](char c) { return token_of(c) >= 0; })) {
    for (const char c : bytes) symbols.push_back(token_of(c));
    return;
  }
  if (!options_.unk) return;
  if (unknown.pending && !options_.fuse_unk) symbols.push_back(*options_.unk);
  unknown.pending = true;
}

void Bpe::merge(std::vector<TokenId>& symbols, std::vector<TokenId>& out) const {
  if (symbols.size() > kShortWord) {
    merge_long(symbols);
  } else if (symbols.size() > 1) {
    merge_short(symbols);
  }
  out.insert(out.end(), symbols.begin(), symbols.end());
}

void Bpe::merge_short(std::vector<TokenId>& symbols) const {
  std::uint64_t pairs[kShortWord];  // rank << 32 | result of (i, i + 1); kNoMerge if none
  std::size_t n = symbols.size();
  auto look_up = [&](std::size_t i) {
    const std::uint64_t* found = merge_of(symbols[i], symbols[i + 1]);
    pairs[i] = found == nullptr ? kNoMerge : *found;
  };
  for (std::size_t i = 0; i + 1 < n; ++i) look_up(i);
  while (n > 1) {
    const std::uint64_t* best = std::min_element(pairs, pairs + n - 1, [](auto a, auto b) {
      return a >> 32 < b >> 32;  // by rank alone, so that the leftmost pair is merged first
    });
    if (*best == kNoMerge) break;
    const auto i = static_cast<std::size_t>(best - pairs);
    symbols[i] = static_cast<TokenId>(*best & 0xFFFFFFFFU);
    std::copy(symbols.begin() + static_cast<std::ptrdiff_t>(i) + 2,
              symbols.begin() + static_cast<std::ptrdiff_t>(n),
              symbols.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    std::copy(pairs + i + 1, pairs + n - 1, pairs + i);
    --n;
    if (i > 0) look_up(i - 1);
    if (i + 1 < n) look_up(i);
  }
  symbols.resize(n);
}

// Uses a heap of candidate merges over a linked list. A candidate is (rank, position); it is stale
// if the pair at its position has another rank by now. A pair never returns after it changed,
// because boundaries between symbols only disappear.
void Bpe::merge_long(std::vector<TokenId>& symbols) const {
  const auto n = static_cast<std::int32_t>(symbols.size());
  std::vector<std::int32_t> previous(symbols.size());
  std::vector<std::int32_t> next(symbols.size());
  std::vector<std::uint64_t> heap;
  constexpr TokenId kGone = -1;
  auto pair_at = [&](std::int32_t i) -> std::uint64_t {
    if (symbols[static_cast<std::size_t>(i)] == kGone) return kNoMerge;
    const std::int32_t right = next[static_cast<std::size_t>(i)];
    if (right == n) return kNoMerge;
    const std::uint64_t* found =
        merge_of(symbols[static_cast<std::size_t>(i)], symbols[static_cast<std::size_t>(right)]);
    return found == nullptr ? kNoMerge : *found;
  };
  auto candidate = [](std::uint64_t pair, std::int32_t i) {
    return (pair >> 32) << 32 | static_cast<std::uint32_t>(i);
  };
  for (std::int32_t i = 0; i < n; ++i) {
    previous[static_cast<std::size_t>(i)] = i - 1;
    next[static_cast<std::size_t>(i)] = i + 1;
  }
  for (std::int32_t i = 0; i < n; ++i)
    if (const std::uint64_t pair = pair_at(i); pair != kNoMerge) heap.push_back(candidate(pair, i));
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  auto push = [&](std::int32_t i) {
    const std::uint64_t pair = pair_at(i);
    if (pair == kNoMerge) return;
    heap.push_back(candidate(pair, i));
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const std::uint64_t top = heap.back();
    heap.pop_back();
    const auto i = static_cast<std::int32_t>(top & 0xFFFFFFFFU);
    const std::uint64_t pair = pair_at(i);
    if (pair == kNoMerge || pair >> 32 != top >> 32) continue;
    const std::int32_t right = next[static_cast<std::size_t>(i)];
    const std::int32_t after = next[static_cast<std::size_t>(right)];
    symbols[static_cast<std::size_t>(i)] = static_cast<TokenId>(pair & 0xFFFFFFFFU);
    symbols[static_cast<std::size_t>(right)] = kGone;
    next[static_cast<std::size_t>(i)] = after;
    if (after < n) previous[static_cast<std::size_t>(after)] = i;
    if (const std::int32_t before = previous[static_cast<std::size_t>(i)]; before >= 0)
      push(before);
    push(i);
  }
  std::erase(symbols, kGone);
}

}  // namespace tandem
