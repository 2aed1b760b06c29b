// Tests which token may come next.
#include "engine/constraint/token_filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/constraint/constraint_compiler.h"
#include "tests/support/test_seed.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using Kind = TextConstraint::Kind;
using Outlook = TokenFilter::Outlook;

constexpr TokenId kEnd = 1;

class Filter : public ::testing::Test {
 protected:
  std::unique_ptr<TokenFilter> filter(const TextConstraint& constraint,
                                      const SamplingParams& sampling = {}) {
    std::shared_ptr<const CompiledConstraint> compiled;
    if (constraint.kind != Kind::none) compiled = compiler_.compile_now(constraint).value();
    return std::make_unique<TokenFilter>(
        std::make_shared<const TokenRules>(sampling, compiled, size_, std::vector<TokenId>{kEnd}));
  }

  Outlook look(TokenFilter& each, const std::vector<TokenId>& output, bool hold_end = false) {
    const auto outlook = each.next(output, hold_end, mask_);
    EXPECT_TRUE(outlook.ok()) << outlook.status().message();
    return outlook.ok() ? *outlook : Outlook::stuck;
  }
  std::vector<TokenId> allowed() const {
    std::vector<TokenId> tokens;
    for (TokenId id = 0; id < size_; ++id) {
      if ((mask_[static_cast<std::size_t>(id) / 32] >> (id % 32) & 1U) != 0) tokens.push_back(id);
    }
    return tokens;
  }
  TokenId token(const std::string& text) { return tokenizer_->encode(text, false).value().front(); }

  std::unique_ptr<Tokenizer> tokenizer_ = Tokenizer::load("data/demo-llama").value();
  // A few more columns than the tokenizer has tokens, as in models.
  std::int32_t size_ = static_cast<std::int32_t>(tokenizer_->vocab_size()) + 11;
  ConstraintCompiler compiler_{*tokenizer_, size_, {kEnd}, {}};
  std::vector<std::uint32_t> mask_ =
      std::vector<std::uint32_t>(static_cast<std::size_t>(mask_words(size_)));
};

TEST_F(Filter, AllowsWhatContinuesTheTextAndTheEndWhenItIsWhole) {
  auto each = filter({Kind::regex, "ab?"});
  EXPECT_EQ(look(*each, {}), Outlook::open);
  for (const TokenId id : allowed()) {
    EXPECT_THAT((std::vector<std::string>{"a", "ab"}),
                ::testing::Contains(tokenizer_->token_bytes(id)));
  }
  const TokenId a = token("a");
  EXPECT_EQ(look(*each, {a}), Outlook::open);
  EXPECT_THAT(allowed(), ::testing::UnorderedElementsAre(token("b"), kEnd));
  EXPECT_EQ(look(*each, {a, token("b")}), Outlook::open);
  EXPECT_THAT(allowed(), ::testing::ElementsAre(kEnd));
  EXPECT_EQ(look(*each, {a, token("b"), kEnd}), Outlook::ended);
}

TEST_F(Filter, AllowsAddedTokensWhereItAllowsTheirTextsAndAnotherEndWithItsOwn) {
  const TokenId call = size_ - 1, call_one = size_ - 2, cool = size_ - 3, special = size_ - 4;
  const TokenId end = size_ - 5;
  const TokenRules::Added added = {
      {call, "<call>"}, {call_one, "<call>1"}, {cool, "<cool>"}, {special, ""}};
  const auto compiled = compiler_.compile_now({Kind::regex, "<call>[0-9]+"}).value();
  TokenFilter each(std::make_shared<const TokenRules>(SamplingParams{}, compiled, size_,
                                                      std::vector<TokenId>{kEnd, end}, added));
  const auto added_now = [&] {
    std::vector<TokenId> tokens = allowed();
    std::erase_if(tokens, [&](TokenId id) { return id < end && id != kEnd; });
    return tokens;
  };
  EXPECT_EQ(look(each, {}), Outlook::open);
  EXPECT_THAT(added_now(), ::testing::ElementsAre(call_one, call));
  EXPECT_EQ(look(each, {call_one}), Outlook::open);
  EXPECT_THAT(added_now(), ::testing::ElementsAre(kEnd, end));
  EXPECT_EQ(look(each, {call_one}, true), Outlook::open);
  EXPECT_THAT(added_now(), ::testing::IsEmpty()) << "digits may come";
  EXPECT_EQ(look(each, {call_one, end}), Outlook::ended);
  EXPECT_EQ(look(each, {call}), Outlook::open);
  EXPECT_THAT(added_now(), ::testing::IsEmpty());
  EXPECT_THAT(allowed(), ::testing::Contains(token("7")));
  EXPECT_EQ(look(each, {call, token("7")}), Outlook::open);
  EXPECT_THAT(added_now(), ::testing::ElementsAre(kEnd, end));
  EXPECT_FALSE(each.next(std::vector<TokenId>{cool}, false, mask_).ok());
}

// XGrammar writes characters internally as numbers, which hex digits may follow.
TEST_F(Filter, FollowsCharactersBeforeHexDigits) {
  const std::vector<std::pair<TextConstraint, std::string>> cases = {
      {{Kind::json_schema, R"({"const":"\u00e9a"})"}, "\"\u00e9a\""},
      {{Kind::json_schema, R"({"enum":["\u007fb", "\u00dfc0"]})"}, "\"\u00dfc0\""},
      {{Kind::json_schema, R"({"properties":{"\u00e9d":{"const":1}},"required":["\u00e9d"]})"},
       "{\"\u00e9d\": 1}"},
      {{Kind::json_schema, R"({"type":"string","pattern":"^[a\u00e9]{2}$"})"}, "\"\u00e9a\""},
      {{Kind::regex, "\u00e9a[a\u00e9]\u00e9[\u00e90]"}, "\u00e9a\u00e9\u00e90"},
      {{Kind::regex, R"(\x41\u0066)"}, "Af"},
      {{Kind::grammar, "root ::= \"\u00e9a\" [\u00e90]"}, "\u00e9a0"}};
  for (const auto& [constraint, text] : cases) {
    auto each = filter(constraint);
    std::vector<TokenId> output;
    std::string_view left = text;
    while (!left.empty()) {
      ASSERT_EQ(look(*each, output), Outlook::open) << constraint.text;
      const auto fits = [&](TokenId id) {
        const std::string bytes = id < kEnd + 1 ? "" : tokenizer_->token_bytes(id);
        return !bytes.empty() && left.starts_with(bytes);
      };
      const std::vector<TokenId> tokens = allowed();
      const auto found = std::ranges::find_if(tokens, fits);
      ASSERT_NE(found, tokens.end()) << constraint.text << ": no token for " << left;
      left.remove_prefix(tokenizer_->token_bytes(*found).size());
      output.push_back(*found);
    }
    if (look(*each, output) == Outlook::open) {
      EXPECT_THAT(allowed(), ::testing::Contains(kEnd)) << constraint.text;
    }
  }
}

TEST_F(Filter, HoldsTheEndBackOnlyWhileSomethingElseMayCome) {
  auto each = filter({Kind::regex, "ab?"});
  const TokenId a = token("a");
  EXPECT_EQ(look(*each, {a}, true), Outlook::open);
  EXPECT_THAT(allowed(), ::testing::ElementsAre(token("b")));
  EXPECT_EQ(look(*each, {a, token("b")}, true), Outlook::open);
  EXPECT_THAT(allowed(), ::testing::ElementsAre(kEnd)) << "the grammar wins";
}

TEST_F(Filter, SaysThatItCannotHaveBeen) {
  auto each = filter({Kind::regex, "ab?"});
  const auto outlook = each->next(std::vector<TokenId>{token("b")}, false, mask_);
  ASSERT_FALSE(outlook.ok());
  EXPECT_EQ(outlook.status().code(), StatusCode::internal);
  EXPECT_THAT(outlook.status().message(), HasSubstr("does not allow token"));
}

TEST_F(Filter, AllowsOnlyTheAllowedTokens) {
  SamplingParams sampling;
  sampling.allowed_token_ids = {5, 6, size_ - 1};
  auto each = filter({}, sampling);
  EXPECT_EQ(look(*each, {7, 7}), Outlook::open);
  EXPECT_EQ(allowed(), sampling.allowed_token_ids);
  sampling.allowed_token_ids = {token("b")};
  auto both = filter({Kind::regex, "ab?"}, sampling);
  EXPECT_EQ(look(*both, {}), Outlook::stuck);
}

TEST_F(Filter, ForbidsTheLastTokenOfABadWordWhereTheOthersStand) {
  SamplingParams sampling;
  sampling.bad_words = {{7}, {8, 9}, {8, 8, 10}};
  auto each = filter({}, sampling);
  const auto forbidden = [&](const std::vector<TokenId>& output) {
    EXPECT_EQ(look(*each, output), Outlook::open);
    const std::vector<TokenId> left = allowed();
    std::vector<TokenId> out;
    for (TokenId id = 0; id < size_; ++id) {
      if (std::find(left.begin(), left.end(), id) == left.end()) out.push_back(id);
    }
    return out;
  };
  EXPECT_EQ(forbidden({}), (std::vector<TokenId>{7}));
  EXPECT_EQ(forbidden({8}), (std::vector<TokenId>{7, 9}));
  EXPECT_EQ(forbidden({8, 8}), (std::vector<TokenId>{7, 9, 10}));
  EXPECT_EQ(forbidden({8, 8, 1}), (std::vector<TokenId>{7}));
}

TEST_F(Filter, AllowsOfSpecialTokensThoseAloneThatATagNames) {
  const TokenId user = tokenizer_->token_to_id("<|user|>").value();
  const auto tag = [](const std::string& begin) {
    return TextConstraint{Kind::structural_tag,
                          R"({"type":"structural_tag","format":{"type":"tag","begin":")" + begin +
                              R"(","content":{"type":"any_text"},"end":"<|assistant|>"}})"};
  };
  auto named = filter(tag("<|user|>"));
  EXPECT_EQ(look(*named, {}), Outlook::open);
  EXPECT_THAT(allowed(), ::testing::Contains(user));
  auto other = filter(tag("<"));
  EXPECT_EQ(look(*other, {}), Outlook::open);
  EXPECT_EQ(look(*other, {token("<")}), Outlook::open);
  EXPECT_THAT(allowed(), ::testing::Not(::testing::Contains(user)));
}

// Random walks: a sampled text is always the prefix of a match, and a filter that goes back to any
// place agrees with a new one.
TEST_F(Filter, SaysTheSameAfterGoingBackAsAFreshOne) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE(::testing::Message() << "seed " << seed << " (TANDEM_TEST_SEED)");
  std::mt19937 random(seed);
  for (
      const TextConstraint& constraint : std::vector<TextConstraint>{
          {Kind::json_schema,
           R"({"type":"object","properties":{"name":{"type":"string","maxLength":6},)"
           R"("n":{"type":"array","items":{"type":"integer"},"maxItems":3}},"required":["name","n"]})"},
          {Kind::regex, "(ab|cd)+[0-9]{2,4}"}}) {
    auto walker = filter(constraint);
    std::vector<TokenId> output;
    for (int step = 0; step < 60; ++step) {
      if (random() % 4 == 0) output.resize(output.size() - random() % (output.size() + 1));
      ASSERT_EQ(look(*walker, output), Outlook::open);
      const std::vector<std::uint32_t> after = mask_;
      const std::vector<TokenId> choice = allowed();
      if (step % 5 == 0) {
        auto fresh = filter(constraint);
        ASSERT_EQ(look(*fresh, output), Outlook::open);
        ASSERT_EQ(mask_, after) << "after " << output.size();
      }
      const TokenId next = choice[random() % choice.size()];
      if (next != kEnd) output.push_back(next);
    }
  }
}

}  // namespace
}  // namespace tandem
