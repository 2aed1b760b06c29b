// Masks computed on another thread are the same; only those that take too long are given up.
#include "engine/constraint/mask_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "engine/constraint/compiled_constraint.h"
#include "engine/constraint/grammar_backend.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using Kind = TextConstraint::Kind;
using Outlook = TokenFilter::Outlook;

class MaskThreads : public ::testing::Test {
 protected:
  std::shared_ptr<TokenFilter> filter(const TextConstraint& constraint) {
    return std::make_shared<TokenFilter>(std::make_shared<const TokenRules>(
        SamplingParams{}, backend_.compile(constraint).value(), size_, std::vector<TokenId>{1}));
  }
  MaskTask task(const std::shared_ptr<TokenFilter>& filter) {
    return {.filter = filter,
            .output = {},
            .mask = std::vector<std::uint32_t>(static_cast<std::size_t>(mask_words(size_)))};
  }
  // A task that takes some tenths of a second, for its next mask as well as for following its
  // output.
  MaskTask endless() {
    MaskTask each = task(filter({Kind::regex, "(a|b|ab|ba|aa)*"}));
    TokenId token = 0;
    while (tokenizer_->token_bytes(token) != "a") ++token;
    each.output.assign(400'000, token);
    return each;
  }

  std::unique_ptr<Tokenizer> tokenizer_ = Tokenizer::load("data/demo-llama").value();
  std::int32_t size_ = static_cast<std::int32_t>(tokenizer_->vocab_size());
  GrammarBackend backend_{*tokenizer_, size_, {1}};
};

TEST_F(MaskThreads, ComputeWhatTheFilterItselfWould) {
  MaskThread thread;
  for (int step = 0; step < 3; ++step) {
    std::vector<MaskTask> tasks{task(filter({Kind::regex, "[0-9]+"})),
                                task(filter({Kind::regex, "x{3}"}))};
    thread.compute(tasks);
    for (const MaskTask& each : tasks) {
      std::vector<std::uint32_t> mask(each.mask.size());
      ASSERT_TRUE(each.outlook.ok());
      EXPECT_EQ(*each.outlook, each.filter->next(each.output, false, mask).value());
      EXPECT_EQ(each.mask, mask);
    }
  }
  thread.compute({});
}

TEST_F(MaskThreads, GiveUpTheOneThatTakesTooLongAndDoTheOthers) {
  MaskThread thread({.cpu = std::chrono::milliseconds(30)});
  std::vector<MaskTask> tasks{task(filter({Kind::regex, "[0-9]+"})), endless(),
                              task(filter({Kind::regex, "x{3}"}))};
  thread.compute(tasks);
  EXPECT_TRUE(tasks[0].outlook.ok());
  EXPECT_TRUE(tasks[2].outlook.ok());
  ASSERT_FALSE(tasks[1].outlook.ok());
  EXPECT_EQ(tasks[1].outlook.status().code(), StatusCode::invalid_argument);
  EXPECT_THAT(tasks[1].outlook.status().message(), HasSubstr("too costly"));
  EXPECT_TRUE(tasks[1].filter->is_abandoned());
  EXPECT_FALSE(tasks[0].filter->is_abandoned());
}

TEST_F(MaskThreads, RefuseMasksWhileTooManyThreadsAreLeftToTheirs) {
  MaskThread thread({.cpu = std::chrono::milliseconds(30), .most_abandoned = 1});
  std::vector<MaskTask> tasks{endless(), task(filter({Kind::regex, "x{3}"}))};
  thread.compute(tasks);
  ASSERT_FALSE(tasks[1].outlook.ok());
  EXPECT_EQ(tasks[1].outlook.status().code(), StatusCode::unavailable);
}

}  // namespace
}  // namespace tandem
