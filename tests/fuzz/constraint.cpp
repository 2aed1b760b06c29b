// A kind (the first byte), then a schema, a pattern, a grammar or a structural tag: compiled, and
// followed for a few tokens.
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "engine/constraint/constraint_check.h"
#include "engine/constraint/grammar_backend.h"
#include "engine/constraint/token_filter.h"
#include "tests/fuzz/targets.h"

namespace tandem::fuzz {
namespace {

// Small enough that an input takes milliseconds. What is large takes long, which deadlines are for.
constexpr ConstraintLimits kSmall{.text_bytes = 1024,
                                  .nesting = 16,
                                  .pattern_repeats = 6,
                                  .grammar_repeats = 12,
                                  .schema_nodes = 100};
constexpr std::int32_t kVocabulary = 300;
constexpr TokenId kEnd = 256;

std::unique_ptr<Tokenizer> bytes_and_a_few_words() {
  std::string vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary += fmt::format("\"<0x{:02X}>\": {}, ", byte, byte);
  }
  vocabulary +=
      R"("<end>": 256, "{\"": 257, "\":": 258, "true": 259, "aa": 260, "ab": 261, "00": 262)";
  return Tokenizer::parse(
             R"({"version": "1.0", "added_tokens": [{"id": 256, "content": "<end>", "special": true,
                 "single_word": false, "lstrip": false, "rstrip": false, "normalized": false}],
                 "decoder": {"type": "ByteFallback"}, "model": {"type": "BPE", "byte_fallback": true,
                 "vocab": {)" +
             vocabulary + R"(}, "merges": []}})")
      .value();
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
    TANDEM_CHECK(!allowed.empty() && allowed.back() < 263, "token {}", allowed.back());
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
  if (!check_constraint(constraint, kSmall).ok()) return;
  const auto compiled = backend.compile(constraint);
  if (compiled) follow(*compiled, static_cast<std::uint32_t>(bytes.size()));
}

}  // namespace tandem::fuzz
