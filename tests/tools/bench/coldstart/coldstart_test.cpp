// Tests parts of `tandem bench coldstart`; bench_command_test runs the command itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "engine/loader/peft/peft_reader.h"
#include "tests/support/small_model.h"
#include "tools/bench/coldstart/cold_adapters.h"
#include "tools/bench/coldstart/exactness.h"

namespace tandem {
namespace {

TEST(ColdAdapters, WritesFoldersThatReadBackAsWhatTheyWereMadeFrom) {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const ModelSpec config = test::small_model(2);
    ColdAdapters adapters(config, dtype);
    const auto folders = adapters.folders(5);  // not a multiple of the padding of rows
    ASSERT_TRUE(folders) << folders.status().message();
    ASSERT_EQ(folders->size(), ColdAdapters::kContents);
    for (std::size_t i = 0; i < folders->size(); ++i) {
      const auto read = load_peft_adapter((*folders)[i], config, dtype);
      ASSERT_TRUE(read) << read.status().message();
      const Adapter& made = adapters.contents(5, i);
      ASSERT_EQ(read->num_bytes, made.num_bytes);
      EXPECT_EQ(std::memcmp(read->bytes.get(), made.bytes.get(), made.num_bytes), 0);
    }
  }
}

TEST(ColdAdapters, LeaveNoFolderBehind) {
  std::string folder;
  {
    ColdAdapters adapters(test::small_model(2), DType::f32);
    folder = adapters.folders(4)->front();
    EXPECT_TRUE(std::filesystem::exists(folder));
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TokenLogprob token(TokenId id, float logprob, std::vector<std::pair<TokenId, float>> top = {}) {
  return {id, logprob, std::move(top)};
}

TEST(CompareAnswers, FindsTheLargestDifferenceInPromptsAndAnswers) {
  const std::vector<ExactAnswer> reference = {{{token(1, -1)}, {token(2, -2), token(3, -3)}}};
  std::vector<ExactAnswer> answer = reference;
  EXPECT_EQ(compare_answers(reference, answer, 0.1).max_difference, 0);
  answer[0].output[1].logprob = -3.25F;
  EXPECT_EQ(compare_answers(reference, answer, 0.1).max_difference, 0.25);
  answer[0].prompt[0].logprob = -1.5F;
  const Agreement agreement = compare_answers(reference, answer, 0.1);
  EXPECT_EQ(agreement.max_difference, 0.5);
  EXPECT_EQ(agreement.tokens, 2);
  EXPECT_EQ(agreement.wrong_tokens, 0);
  answer[0].prompt[0].logprob = std::nanf("");
  EXPECT_EQ(compare_answers(reference, answer, 0.1).max_difference, HUGE_VAL);
}

TEST(CompareAnswers, AnotherTokenIsWrongUnlessTheReferenceWasInDoubt) {
  const std::vector<ExactAnswer> reference = {
      {{}, {token(2, -1, {{2, -1.0F}, {4, -1.0625F}, {5, -1.5F}}), token(3, -3)}}};
  const auto other = [&](TokenId id) {
    return std::vector<ExactAnswer>{{{}, {token(id, -1), token(9, -9)}}};
  };
  const Agreement tie = compare_answers(reference, other(4), 0.1);
  EXPECT_EQ(tie.near_ties, 1);
  EXPECT_EQ(tie.wrong_tokens, 0);
  EXPECT_EQ(tie.tokens, 1) << "what follows has another past";
  EXPECT_EQ(compare_answers(reference, other(5), 0.1).wrong_tokens, 1);
  EXPECT_EQ(compare_answers(reference, other(7), 0.1).wrong_tokens, 1);
}

}  // namespace
}  // namespace tandem
