// Grammars as bytes: decoding gives the same masks, and damaged bytes are refused or harmless.
#include "engine/constraint/grammar_codec.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/constraint/compiled_constraint.h"
#include "engine/constraint/grammar_backend.h"
#include "engine/constraint/token_filter.h"
#include "tests/support/test_seed.h"

namespace tandem {
namespace {

using Kind = TextConstraint::Kind;
using Compiled = std::shared_ptr<const CompiledConstraint>;

class GrammarCodec : public ::testing::Test {
 protected:
  std::unique_ptr<TokenFilter> filter_of(const Compiled& compiled) const {
    return std::make_unique<TokenFilter>(std::make_shared<const TokenRules>(
        SamplingParams{}, compiled, size_, std::vector<TokenId>{1}));
  }
  // Checks that both give the same masks along one random text.
  void expect_same_masks(const Compiled& one, const Compiled& two, std::mt19937& random) const {
    const auto left = filter_of(one), right = filter_of(two);
    const auto words = static_cast<std::size_t>(mask_words(size_));
    std::vector<std::uint32_t> mask(words), other(words);
    std::vector<TokenId> output;
    for (int step = 0; step < 24; ++step) {
      const auto outlook = left->next(output, false, mask).value();
      ASSERT_EQ(right->next(output, false, other).value(), outlook);
      if (outlook != TokenFilter::Outlook::open) return;
      ASSERT_EQ(mask, other);
      std::vector<TokenId> allowed;
      for (TokenId id = 0; id < size_; ++id) {
        if ((mask[static_cast<std::size_t>(id) / 32] >> (id % 32) & 1U) != 0) allowed.push_back(id);
      }
      output.push_back(allowed[random() % allowed.size()]);
      if (output.back() == 1) return;
    }
  }

  std::unique_ptr<Tokenizer> tokenizer_ = Tokenizer::load("data/demo-llama").value();
  std::int32_t size_ = static_cast<std::int32_t>(tokenizer_->vocab_size());
  GrammarBackend backend_{*tokenizer_, size_, {1}};
};

TEST_F(GrammarCodec, BringsEveryKindOverAsItWas) {
  std::mt19937 random(static_cast<std::uint32_t>(test_seed()));
  for (
      const TextConstraint& constraint : std::vector<TextConstraint>{
          {Kind::json_object, ""},
          {Kind::json_schema,
           R"({"type":"object","properties":{"a":{"type":"integer","maximum":40},)"
           R"("b":{"type":"string","maxLength":12},"c":{"enum":["x","yz"]},)"
           R"("d":{"type":"array","items":{"type":"number"},"maxItems":3}},"required":["a","b"]})"},
          {Kind::regex, "(ab|cd){2,4}-[0-9]{3}"},
          {Kind::grammar, "root ::= \"(\" root \")\" | [a-z]*"},
          {Kind::structural_tag,
           R"({"type":"structural_tag","format":{"type":"tag","begin":"<f>","content":)"
           R"({"type":"json_schema","json_schema":{"type":"object"}},"end":"</f>"}})"}}) {
    const auto compiled = backend_.compile(constraint);
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    const auto adopted = backend_.adopt(constraint, encode_grammar((*compiled)->grammar()));
    ASSERT_TRUE(adopted.ok()) << constraint.text << ": " << adopted.status().message();
    for (int text = 0; text < 4; ++text) expect_same_masks(*compiled, *adopted, random);
  }
}

TEST_F(GrammarCodec, RefusesBytesThatAreCutOrLongerAndSurvivesThoseThatAreOthers) {
  const TextConstraint constraint{Kind::regex, "(a|bc){1,3}[0-9]*"};
  const std::string bytes = encode_grammar(backend_.compile(constraint).value()->grammar());
  EXPECT_FALSE(backend_.adopt(constraint, bytes + "x").ok());
  for (std::size_t end = 0; end < bytes.size(); end += 1 + bytes.size() / 200) {
    EXPECT_FALSE(backend_.adopt(constraint, bytes.substr(0, end)).ok()) << end;
  }
  std::mt19937 random(static_cast<std::uint32_t>(test_seed()));
  for (int i = 0; i < 300; ++i) {
    std::string changed = bytes;
    changed[random() % changed.size()] = static_cast<char>(random());
    const auto adopted = backend_.adopt(constraint, changed);
    if (adopted) (void)try_out(*adopted, size_);  // whatever it allows, no index is out of range
  }
}

TEST_F(GrammarCodec, BringsAVocabularyOver) {
  const auto told = GrammarVocabulary::from_bytes(backend_.vocabulary_bytes());
  ASSERT_TRUE(told.ok()) << told.status().message();
  GrammarBackend other(*told);
  const TextConstraint constraint{Kind::regex, "[0-9a-f]{6}"};
  std::mt19937 random(static_cast<std::uint32_t>(test_seed()));
  expect_same_masks(backend_.compile(constraint).value(), other.compile(constraint).value(),
                    random);
  const std::string bytes = backend_.vocabulary_bytes();
  EXPECT_FALSE(GrammarVocabulary::from_bytes(bytes.substr(0, bytes.size() / 2)).ok());
  EXPECT_FALSE(GrammarVocabulary::from_bytes(bytes + "x").ok());
}

}  // namespace
}  // namespace tandem
