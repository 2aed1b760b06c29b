// A kind (the first byte), then a schema, a pattern, a grammar or a structural tag: compiled, and
// followed for a few tokens.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "engine/constraint/constraint_check.h"
#include "engine/constraint/grammar_backend.h"
#include "engine/constraint/token_filter.h"
#include "tests/fuzz/targets.h"

namespace tandem::fuzz {
namespace {

// Small enough that an input takes a few milliseconds, most far less: thousands of small ones meet
// more of the parsers than a large one. What is large takes long, which deadlines are for.
constexpr ConstraintLimits kSmall{.text_bytes = 1024,
                                  .nesting = 16,
                                  .pattern_repeats = 6,
                                  .grammar_repeats = 12,
                                  .schema_nodes = 100};
// Of patterns and grammars, whose cost grows with what {...} counts to as well.
constexpr std::size_t kPatternBytes = 80;
constexpr std::size_t kCountDigits = 1;

// Bytes of ASCII's printed characters and of one character of each length in UTF-8, and no other:
// what all 256 would cost is time. As many tokens as a mask's last word is not full of.
constexpr std::string_view kBytes = "\t\n\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xFF";
constexpr TokenId kEnd = 0;
constexpr std::int32_t kNumTokens = 7 + static_cast<std::int32_t>(kBytes.size()) + (0x7f - 0x20);
constexpr std::int32_t kVocabulary = 140;
static_assert(kNumTokens < kVocabulary && kVocabulary % 32 != 0);

std::unique_ptr<Tokenizer> bytes_and_a_few_words() {
  std::string vocabulary =
      R"("<end>": 0, "{\"": 1, "\":": 2, "true": 3, "aa": 4, "ab": 5, "00": 6)";
  TokenId id = 7;
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

// Whether a pattern or a grammar costs more than an input may.
bool is_costly(std::string_view text) {
  if (text.size() > kPatternBytes) return true;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '{' && text[i] != ',') continue;
    const std::size_t end = std::min(text.find_first_not_of("0123456789", i + 1), text.size());
    if (end - (i + 1) > kCountDigits) return true;
  }
  return false;
}

void follow(const std::shared_ptr<const CompiledConstraint>& compiled, std::uint32_t random) {
  TokenFilter filter(std::make_shared<const TokenRules>(SamplingParams{}, compiled, kVocabulary,
                                                        std::vector<TokenId>{kEnd}));
  std::vector<std::uint32_t> mask(static_cast<std::size_t>(mask_words(kVocabulary)));
  std::vector<TokenId> output;
  for (int step = 0; step < 12; ++step) {
    const auto outlook = filter.next(output, false, mask);
    if (!outlook) {  // costly; what it allowed it must not refuse
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
  const bool is_text = constraint.kind == TextConstraint::Kind::regex ||
                       constraint.kind == TextConstraint::Kind::grammar;
  if (is_text && is_costly(constraint.text)) return;
  if (!check_constraint(constraint, kSmall).ok()) return;
  const auto compiled = backend.compile(constraint);
  if (compiled) follow(*compiled, static_cast<std::uint32_t>(bytes.size()));
}

}  // namespace tandem::fuzz
