#include "tools/bench/serve/plan/datasets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem {
namespace {

using ::testing::HasSubstr;

DatasetOptions named(const char* name) {
  DatasetOptions options;
  options.name = name;
  return options;
}

Dataset parsed(const DatasetOptions& options, std::string_view text, std::int64_t count) {
  auto dataset = parse_dataset(options, text, count, nullptr);
  EXPECT_TRUE(dataset.ok()) << dataset.status().message();
  return dataset.ok() ? std::move(*dataset) : Dataset{};
}

TEST(Datasets, RandomLengthsLieWithinTheRatioAndTheSeedGivesThemAgain) {
  DatasetOptions options = named("random");
  options.input_len = 100;
  options.output_len = 10;
  options.range_ratio = 0.5;
  options.prefix_len = 7;
  const auto once = make_dataset(options, 500, nullptr);
  const auto again = make_dataset(options, 500, nullptr);
  ASSERT_TRUE(once.ok() && again.ok());
  const PromptMaker maker(PromptMaker::kDefaultVocabulary);
  std::int32_t shortest = 1000;
  std::int32_t longest = 0;
  for (std::size_t i = 0; i < 500; ++i) {
    const LoadPrompt& prompt = once->prompts[i];
    shortest = std::min(shortest, prompt.prompt_tokens);
    longest = std::max(longest, prompt.prompt_tokens);
    EXPECT_GE(prompt.output_tokens, 5);
    EXPECT_LE(prompt.output_tokens, 15);
    EXPECT_EQ(maker.ids_of(prompt), maker.ids_of(again->prompts[i]));
    EXPECT_EQ(std::ssize(maker.ids_of(prompt)), prompt.prompt_tokens);
  }
  EXPECT_GE(shortest, 57);
  EXPECT_LE(longest, 157);
  EXPECT_LT(shortest, 65);  // with 500 samples the extremes are nearly reached
  EXPECT_GT(longest, 149);
  // Prompts share their beginning.
  const auto first = maker.ids_of(once->prompts[0]);
  const auto second = maker.ids_of(once->prompts[1]);
  EXPECT_TRUE(std::equal(first.begin(), first.begin() + 7, second.begin()));
  EXPECT_FALSE(std::equal(first.begin(), first.begin() + 20, second.begin()));
}

TEST(Datasets, PrefixesRepeatAndWhatFollowsThemDoesNot) {
  DatasetOptions options = named("prefix_repetition");
  options.input_len = 5;
  options.prefix_len = 4;
  options.num_prefixes = 3;
  const auto dataset = make_dataset(options, 60, nullptr);
  ASSERT_TRUE(dataset.ok());
  std::set<std::uint64_t> prefixes;
  std::set<std::uint64_t> rests;
  for (const LoadPrompt& prompt : dataset->prompts) {
    ASSERT_EQ(prompt.pieces.size(), 2U);
    prefixes.insert(prompt.pieces[0].seed);
    rests.insert(prompt.pieces[1].seed);
  }
  EXPECT_EQ(prefixes.size(), 3U);
  EXPECT_EQ(rests.size(), 60U);
}

TEST(Datasets, CustomLinesAreTextsOrIdsAndBeginAnewWhenTheyAreFew) {
  const Dataset dataset = parsed(named("custom"),
                                 "{\"prompt\": \"Hello\", \"output_tokens\": 3}\n\n"
                                 "{\"prompt\": [5, 6, 7]}\n",
                                 3);
  ASSERT_EQ(dataset.prompts.size(), 3U);
  EXPECT_EQ(dataset.prompts[0].text, "Hello");
  EXPECT_EQ(dataset.prompts[0].output_tokens, 3);
  EXPECT_EQ(dataset.prompts[1].ids, (std::vector<TokenId>{5, 6, 7}));
  EXPECT_EQ(dataset.prompts[1].output_tokens, 256);
  EXPECT_EQ(dataset.prompts[2].text, "Hello");
}

TEST(Datasets, ConversationsGiveTheFirstTurnAndTheLengthOfTheSecond) {
  const std::string_view text = R"([
    {"conversations": [{"from": "human", "value": "What is the time in Lisbon?"},
                       {"from": "gpt", "value": "I cannot look at clocks from here, sorry."}]},
    {"conversations": [{"from": "human", "value": "?"}, {"from": "gpt", "value": "Pardon me then?"}]},
    {"conversations": [{"from": "human", "value": "nobody answers this question"}]}])";
  const Dataset dataset = parsed(named("sharegpt"), text, 1);
  ASSERT_EQ(dataset.prompts.size(), 1U);
  EXPECT_EQ(dataset.prompts[0].text, "What is the time in Lisbon?");
  EXPECT_EQ(dataset.prompts[0].output_tokens, 11);  // 41 bytes
  EXPECT_THAT(dataset.note, HasSubstr("estimated"));
}

TEST(Datasets, ATraceSaysWhenAndEqualHashesAreEqualTokens) {
  DatasetOptions options = named("timed_trace");
  options.block_tokens = 4;
  options.trace_speed = 2;
  const Dataset dataset = parsed(
      options,
      R"({"timestamp": 0, "input_length": 10, "output_length": 5, "hash_ids": [1, 2, 3]})"
      "\n"
      R"({"timestamp": 3000, "input_length": 7, "output_length": 6, "hash_ids": [1], "adapter": "a"})",
      100);
  EXPECT_EQ(dataset.due_s, (std::vector<double>{0, 1.5}));
  EXPECT_EQ(dataset.adapters, (std::vector<std::string>{"", "a"}));
  const PromptMaker maker(1000);
  const auto first = maker.ids_of(dataset.prompts[0]);
  const auto second = maker.ids_of(dataset.prompts[1]);
  EXPECT_EQ(first.size(), 10U);
  EXPECT_EQ(second.size(), 7U);
  EXPECT_TRUE(std::equal(first.begin(), first.begin() + 4, second.begin()));
  EXPECT_NE(first[4], second[4]);
}

TEST(Datasets, ATraceOfTheSimulatorNamesItsAdapters) {
  const Dataset dataset = parsed(
      named("timed_trace"),
      R"({"arrival_s": 0.25, "adapter": "x", "rank": 8, "prompt_tokens": 19, "answer_tokens": 58})"
      "\n"
      R"({"arrival_s": 0.5, "adapter": "y", "rank": 8, "prompt_tokens": 9, "answer_tokens": 5})",
      100);
  EXPECT_EQ(dataset.due_s, (std::vector<double>{0.25, 0.5}));
  EXPECT_EQ(dataset.adapters, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(dataset.prompts[1].prompt_tokens, 9);
}

TEST(Datasets, SayWhichLineIsWrong) {
  const auto message = [](const char* name, std::string_view text) {
    const auto dataset = parse_dataset(named(name), text, 10, nullptr);
    return dataset.ok() ? std::string("accepted") : dataset.status().message();
  };
  EXPECT_THAT(message("custom", "{\"prompt\": \"a\"}\nno"), HasSubstr("line 2"));
  EXPECT_THAT(message("custom", "{\"prompt\": [1, -1]}"), HasSubstr("line 1"));
  EXPECT_THAT(message("custom", "{\"prompt\": \"\"}"), HasSubstr("not empty"));
  EXPECT_THAT(message("custom", "{\"prompt\": \"a\", \"output_tokens\": 0}"),
              HasSubstr("output_tokens"));
  EXPECT_THAT(message("custom", "\n"), HasSubstr("no prompt"));
  EXPECT_THAT(message("sharegpt", "{}"), HasSubstr("list"));
  EXPECT_THAT(message("sharegpt", "[1]"), HasSubstr("entry 1"));
  EXPECT_THAT(message("timed_trace", R"({"timestamp": -1, "input_length": 1, "output_length": 1})"),
              HasSubstr("timestamp"));
  EXPECT_THAT(message("timed_trace", R"({"timestamp": 1, "output_length": 1})"),
              HasSubstr("input_length"));
}

TEST(Datasets, SayWhatAFileIsFor) {
  DatasetOptions options = named("random");
  options.path = "x";
  EXPECT_FALSE(make_dataset(options, 1, nullptr).ok());
  EXPECT_THAT(make_dataset(named("custom"), 1, nullptr).status().message(),
              HasSubstr("--dataset-path"));
}

}  // namespace
}  // namespace tandem
