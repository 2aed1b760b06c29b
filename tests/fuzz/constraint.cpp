// Input: a kind (the first byte), then a schema, a pattern, a grammar or a structural tag. It is
// compiled and followed for a few tokens.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "engine/constraint/check/constraint_check.h"
#include "engine/constraint/grammar_backend.h"
#include "engine/constraint/token_filter.h"
#include "tests/fuzz/targets.h"

namespace tandem::fuzz {
namespace {

// The limits keep an input to a few milliseconds, because thousands of small inputs reach more of
// the parsers than a large one. Large constraints take long, which deadlines handle.
constexpr ConstraintLimits kSmall{.text_bytes = 1024,
                                  .nesting = 16,
                                  .pattern_repeats = 6,
                                  .grammar_repeats = 12,
                                  .schema_nodes = 100};
constexpr std::size_t kPatternBytes = 80;  // for a pattern or grammar on its own
// Digits of a number in {...}, because compiling repeats that often, unless the number exceeds an
// int.
constexpr std::size_t kCountDigits = 1;
constexpr std::size_t kTooManyDigits = 11;

// The tokens are an end, a few words, and bytes: printable ASCII, and those below with one
// character of each length in UTF-8. All 256 bytes would take more time. The vocabulary has further
// ids, which no mask may allow, and the last word of a mask is only partly used.
constexpr TokenId kEnd = 0;
constexpr std::string_view kWords =
    R"("<end>": 0, "{\"": 1, "\":": 2, "true": 3, "aa": 4, "ab": 5, "00": 6)";
constexpr TokenId kFirstByte = 7;
constexpr std::string_view kBytes = "\t\n\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xFF";
constexpr std::int32_t kNumTokens =
    kFirstByte + static_cast<std::int32_t>(kBytes.size()) + (0x7f - 0x20);
constexpr std::int32_t kVocabulary = 140;
static_assert(kNumTokens < kVocabulary && kVocabulary % 32 != 0);

std::unique_ptr<Tokenizer> bytes_and_a_few_words() {
  std::string vocabulary(kWords);
  TokenId id = kFirstByte;
  const auto add = [&](std::uint8_t byte) {
    vocabulary += fmt::format(", \"<0x{:02X}>\": {}", byte, id++);
  };
  for (const char byte : kBytes) add(static_cast<std::uint8_t>(byte));
  for (std::uint8_t byte = 0x20; byte < 0x7f; ++byte) add(byte);
  return Tokenizer::parse(
             R"({"version": "1.0", "added_tokens": [{"id": 0, "content": "<end>", "special": true,
                 "single_word": false, "lstrip": false, "rstrip": false, "normalized": false}],
                 "decoder": {"type": "ByteFallback"}, "model": {"type": "BPE", "byte_fallback": true,
                 "vocab": {)" +
             vocabulary + R"(}, "merges": []}})")
      .value();
}

// True if the text has {m}, {m,} or {m,n} with a number of several digits, as in a schema's
// pattern.
bool repeats_often(std::string_view text) {
  const auto is_often = [&](std::size_t begin, std::size_t end) {
    return end - begin > kCountDigits && end - begin < kTooManyDigits;
  };
  const auto end_of_digits = [&](std::size_t begin) {
    return std::min(text.find_first_not_of("0123456789", begin), text.size());
  };
  for (std::size_t at = text.find('{'); at < text.size(); at = text.find('{', at + 1)) {
    const std::size_t end = end_of_digits(at + 1);
    if (is_often(at + 1, end)) return true;
    const bool has_most = end < text.size() && text[end] == ',';
    if (has_most && is_often(end + 1, end_of_digits(end + 1))) return true;
  }
  return false;
}

bool is_costly(const TextConstraint& constraint) {
  const bool is_pattern = constraint.kind == TextConstraint::Kind::regex ||
                          constraint.kind == TextConstraint::Kind::grammar;
  return (is_pattern && constraint.text.size() > kPatternBytes) || repeats_often(constraint.text);
}

void follow(const std::shared_ptr<const CompiledConstraint>& compiled, std::uint32_t random) {
  TokenFilter filter(std::make_shared<const TokenRules>(SamplingParams{}, compiled, kVocabulary,
                                                        std::vector<TokenId>{kEnd}));
  std::vector<std::uint32_t> mask(static_cast<std::size_t>(mask_words(kVocabulary)));
  std::vector<TokenId> output;
  for (int step = 0; step < 12; ++step) {
    const auto outlook = filter.next(output, false, mask);
    if (!outlook) {  // too costly; but what was allowed must not be refused
      TANDEM_CHECK(outlook.status().code() == StatusCode::invalid_argument, "{}",
                   outlook.status().message());
      return;
    }
    if (*outlook != TokenFilter::Outlook::open) return;
    std::vector<TokenId> allowed;
    for (TokenId id = 0; id < kVocabulary; ++id) {
      if ((mask[static_cast<std::size_t>(id) / 32] >> (id % 32) & 1U) != 0) allowed.push_back(id);
    }
    TANDEM_CHECK(!allowed.empty() && allowed.back() < kNumTokens, "token {}", allowed.back());
    random = random * 1664525 + 1013904223;
    const TokenId next = allowed[(random >> 8) % allowed.size()];
    if (next == kEnd) return;
    output.push_back(next);
  }
}

}  // namespace

void fuzz_constraint(Bytes bytes) {
  static const std::unique_ptr<Tokenizer> tokenizer = bytes_and_a_few_words();
  static GrammarBackend backend(*tokenizer, kVocabulary, {kEnd});
  if (bytes.empty()) return;
  constexpr TextConstraint::Kind kKinds[] = {
      TextConstraint::Kind::json_schema, TextConstraint::Kind::regex, TextConstraint::Kind::grammar,
      TextConstraint::Kind::structural_tag};
  const TextConstraint constraint{kKinds[static_cast<std::size_t>(bytes[0]) % 4],
                                  std::string(text_of(bytes.subspan(1)))};
  if (!check_constraint(constraint, kSmall).ok() || is_costly(constraint)) return;
  const auto compiled = backend.compile(constraint);
  if (compiled) follow(*compiled, static_cast<std::uint32_t>(bytes.size()));
}

}  // namespace tandem::fuzz
