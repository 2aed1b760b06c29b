// Constrained texts are valid for any weights, adapter, batch and way of running.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include "tests/support/test_engine.h"
#include "tests/support/test_seed.h"

namespace tandem::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using Kind = TextConstraint::Kind;

constexpr const char* kModel = "data/tiny-llama";
constexpr const char* kSchema =
    R"({"type":"object","properties":{"name":{"type":"string","maxLength":8},)"
    R"("sizes":{"type":"array","items":{"type":"integer","minimum":0,"maximum":99},"maxItems":2},)"
    R"("kind":{"enum":["a","b c"]}},"required":["name","sizes","kind"]})";

GenerationRequest drawn(const TextConstraint& constraint, std::uint64_t seed,
                        const std::string& adapter = "") {
  GenerationRequest request;
  request.prompt = {0, 40 + static_cast<TokenId>(seed % 100), 77};
  request.max_tokens = 96;
  request.adapter = adapter;
  request.sampling.seed = seed;
  request.constraint = constraint;
  return request;
}

struct Judged {
  TextConstraint constraint;
  bool (*is_right)(const std::string& text);
};

const std::vector<Judged>& all_kinds() {
  static const std::vector<Judged> kinds{
      {{Kind::json_object, ""},
       [](const std::string& text) { return json::parse(text, nullptr, false).is_object(); }},
      {{Kind::json_schema, kSchema},
       [](const std::string& text) {
         const json value = json::parse(text, nullptr, false);
         if (!value.is_object() || value.size() != 3 || !value["sizes"].is_array()) return false;
         if (value["sizes"].size() > 2) return false;
         for (const json& size : value["sizes"]) {
           if (!size.is_number_integer() || size < 0 || size > 99) return false;
         }
         return value["name"].is_string() && (value["kind"] == "a" || value["kind"] == "b c");
       }},
      {{Kind::regex, "(ab|cd){2,4}-[0-9]{3}"},
       [](const std::string& text) {
         return std::regex_match(text, std::regex("(ab|cd){2,4}-[0-9]{3}"));
       }},
      {{Kind::grammar, "root ::= \"yes\" | \"no\" | \"per\" \"haps\""},
       [](const std::string& text) { return text == "yes" || text == "no" || text == "perhaps"; }}};
  return kinds;
}

class Constrained : public ::testing::Test {
 protected:
  static std::unique_ptr<TestEngine> load(
      const EngineOptions& options = small_engine_options(128)) {
    return TestEngine::load(kModel, DType::f32, options);
  }
};

// Weights and samples are random, so that only the constraint can make the text valid.
TEST_F(Constrained, MakesValidTextOfEveryKindForEveryContinuation) {
  const std::uint64_t seed = test_seed(20261122);
  SCOPED_TRACE(::testing::Message() << "seed " << seed << " (TANDEM_TEST_SEED)");
  auto engine = load();
  // Schemas allow any amount of white space between values, and random weights would produce it
  // endlessly.
  std::vector<std::pair<TokenId, float>> against_white_space;
  for (TokenId id = 0; id < static_cast<TokenId>(engine->tokenizer->vocab_size()); ++id) {
    const std::string bytes = engine->tokenizer->token_bytes(id);
    if (!bytes.empty() && bytes.find_first_not_of(" \n\t\r") == std::string::npos) {
      against_white_space.emplace_back(id, -20.0F);
    }
  }
  std::map<std::size_t, int> whole;  // by constraint kind
  std::vector<std::pair<std::size_t, std::unique_ptr<Generation>>> running;
  for (std::size_t i = 0; i < 24; ++i) {
    const std::size_t kind = i % all_kinds().size();
    GenerationRequest request =
        drawn(all_kinds()[kind].constraint, seed + i, i % 3 == 0 ? "r8" : "");
    request.n = i % 5 == 0 ? 3 : 1;
    request.sampling.logit_bias = against_white_space;
    running.emplace_back(kind, engine->engine->submit(std::move(request)).value());
  }
  for (auto& [kind, generation] : running) {
    for (const Collected& got : collect(*generation)) {
      ASSERT_TRUE(got.error.ok()) << got.error.message();
      if (got.finish != FinishReason::stop) continue;  // max_tokens cut it
      ++whole[kind];
      EXPECT_TRUE(all_kinds()[kind].is_right(got.text)) << kind << ": " << got.text;
    }
  }
  for (const std::size_t kind : {1, 2, 3}) EXPECT_GE(whole[kind], 3) << "kind " << kind;
}

TEST_F(Constrained, LeavesTheTokensOfOthersInTheBatchAsTheyAre) {
  const auto free_tokens = [&](bool with_constrained) {
    auto engine = load();
    std::vector<std::unique_ptr<Generation>> others, free;
    for (std::uint64_t i = 0; i < 6; ++i) {
      if (with_constrained) {
        others.push_back(
            engine->engine->submit(drawn(all_kinds()[i % 4].constraint, i, "r16")).value());
      }
      GenerationRequest request = drawn({}, 100 + i, i % 2 == 0 ? "r8" : "");
      request.max_tokens = 24;
      request.ignore_eos = true;
      free.push_back(engine->engine->submit(std::move(request)).value());
    }
    std::vector<std::vector<TokenId>> tokens;
    for (auto& each : free) tokens.push_back(collect(*each).front().tokens);
    for (auto& each : others) (void)collect(*each);
    return tokens;
  };
  EXPECT_EQ(free_tokens(true), free_tokens(false));
}

TEST_F(Constrained, EndsWhereTheGrammarDoesWhateverTheRequestSaysOfEnds) {
  auto engine = load();
  GenerationRequest request = drawn(all_kinds()[3].constraint, 1);
  request.ignore_eos = true;
  request.min_tokens = 50;
  const Collected got = run(*engine->engine, request).front();
  EXPECT_EQ(got.finish, FinishReason::stop);
  EXPECT_TRUE(all_kinds()[3].is_right(got.text)) << got.text;
  // The minimum number of tokens counts as long as the constraint lets the text go on.
  request.constraint = {Kind::regex, "[a-z]+"};
  request.ignore_eos = false;
  request.min_tokens = 40;
  EXPECT_GE(run(*engine->engine, request).front().tokens.size(), 40U);
}

TEST_F(Constrained, DrawsOnlyAllowedTokensAndNoBadWords) {
  auto engine = load();
  GenerationRequest request = drawn({}, 7);
  request.ignore_eos = true;
  request.sampling.allowed_token_ids = {60, 61, 62};
  request.sampling.bad_words = {{61}, {60, 60}};
  const std::vector<TokenId> tokens = run(*engine->engine, request).front().tokens;
  ASSERT_EQ(tokens.size(), 96U);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_TRUE(tokens[i] == 60 || tokens[i] == 62);
    if (i > 0) {
      EXPECT_FALSE(tokens[i - 1] == 60 && tokens[i] == 60);
    }
  }
}

TEST_F(Constrained, FailsByNameWhenNothingIsLeftAndTheOthersGoOn) {
  auto engine = load();
  auto other = engine->engine->submit(drawn(all_kinds()[3].constraint, 3)).value();
  GenerationRequest request = drawn({Kind::regex, "ab"}, 7);
  request.sampling.allowed_token_ids = {60};
  const Collected got = run(*engine->engine, request).front();
  EXPECT_EQ(got.finish, FinishReason::failed);
  EXPECT_EQ(got.error.code(), StatusCode::invalid_argument);
  EXPECT_THAT(got.error.message(), HasSubstr("allowed_token_ids"));
  EXPECT_TRUE(all_kinds()[3].is_right(collect(*other).front().text));
}

TEST_F(Constrained, ReportsLogProbabilitiesOfWhatMayComeAlone) {
  auto engine = load();
  GenerationRequest request = drawn({Kind::regex, "[xy]{5}"}, 7);
  request.num_logprobs = 20;
  const Collected got = run(*engine->engine, request).front();
  ASSERT_FALSE(got.logprobs.empty());
  for (const TokenLogprob& each : got.logprobs) {
    EXPECT_GT(each.logprob, -100);
    EXPECT_LT(each.top.size(), 20U);
    double sum = 0;
    for (const auto& [token, logprob] : each.top) sum += std::exp(logprob);
    EXPECT_NEAR(sum, 1, 1e-3);
  }
}

TEST_F(Constrained, RefusesWhatCannotBeCompiled) {
  auto engine = load();
  const auto refused = engine->engine->submit(drawn({Kind::json_schema, "{\"type\":7}"}, 1));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::invalid_argument);
  EXPECT_THAT(refused.status().message(), HasSubstr("constraint"));
}

}  // namespace
}  // namespace tandem::test
