#include "scheduler/cluster/simulator/recorded_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tandem {
namespace {

using ::testing::HasSubstr;

constexpr const char* kTwo =
    R"({"arrival_s": 0.25, "adapter": "a", "rank": 16, "prompt_tokens": 19, "answer_tokens": 58})"
    "\n\n"
    R"({"arrival_s": 0.5, "adapter": "b", "rank": 8, "prompt_tokens": 1, "answer_tokens": 2})"
    "\n"
    R"({"arrival_s": 0.5, "adapter": "a", "rank": 16, "prompt_tokens": 7, "answer_tokens": 3})";

TEST(RecordedRequests, AreReadInOrderAndTheirAdaptersNumbered) {
  std::vector<std::string> names;
  const auto requests = parse_recorded_requests(kTwo, &names);
  ASSERT_TRUE(requests.ok()) << requests.status().message();
  ASSERT_EQ(requests->size(), 3U);
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ((*requests)[0].arrival_s, 0.25);
  EXPECT_EQ((*requests)[0].rank, 16);
  EXPECT_EQ((*requests)[0].prompt_tokens, 19);
  EXPECT_EQ((*requests)[0].answer_tokens, 58);
  EXPECT_EQ((*requests)[1].adapter.value(), 1);
  EXPECT_EQ((*requests)[2].adapter, (*requests)[0].adapter);
}

TEST(RecordedRequests, AreServedAsTheyCame) {
  const auto requests = parse_recorded_requests(kTwo);
  ASSERT_TRUE(requests.ok());
  WorkloadOptions options;
  options.arrivals = "recorded";
  options.recorded = &*requests;
  auto workload = Workload::create(options, nullptr);
  ASSERT_TRUE(workload.ok()) << workload.status().message();
  EXPECT_DOUBLE_EQ(workload->mean_prompt_tokens(), 9);
  EXPECT_DOUBLE_EQ(workload->mean_answer_tokens(), 21);
  EXPECT_EQ(workload->largest_rank(), 16);
  for (const SimRequest& request : *requests) {
    const auto next = workload->next();
    ASSERT_TRUE(next.has_value());
    EXPECT_EQ(next->arrival_s, request.arrival_s);
    EXPECT_EQ(next->answer_tokens, request.answer_tokens);
  }
  EXPECT_FALSE(workload->next().has_value());
}

TEST(RecordedRequests, ThatAreWrongAreNamedByLine) {
  const auto message = [](const std::string& line) {
    const auto read = parse_recorded_requests(
        R"({"arrival_s": 2, "adapter": "a", "rank": 8, "prompt_tokens": 1, "answer_tokens": 1})"
        "\n" +
        line);
    return std::string(read.status().message());
  };
  EXPECT_THAT(message("x"), HasSubstr("line 2: it is no JSON object"));
  EXPECT_THAT(message("[1]"), HasSubstr("line 2: it is no JSON object"));
  EXPECT_THAT(message(R"({"arrival_s": 1})"), HasSubstr("line 2: arrival_s 1 is before"));
  EXPECT_THAT(message(R"({"arrival_s": "3"})"), HasSubstr("arrival_s must be seconds"));
  EXPECT_THAT(message(R"({"arrival_s": 3, "adapter": 5})"), HasSubstr("adapter must be a name"));
  EXPECT_THAT(message(R"({"arrival_s": 3, "adapter": "b", "rank": 1e9})"),
              HasSubstr("rank must be a whole number from 1 to"));
  EXPECT_THAT(message(R"({"arrival_s": 3, "adapter": "b", "rank": 8, "prompt_tokens": 0})"),
              HasSubstr("prompt_tokens must be"));
  EXPECT_THAT(message(R"({"arrival_s": 3, "adapter": "a", "rank": 16, "prompt_tokens": 1,)"
                      R"( "answer_tokens": 1})"),
              HasSubstr("adapter 'a' has rank 16 here and 8 above"));
  EXPECT_THAT(message(std::string(5000, ' ') + "x"), HasSubstr("more than 4096 bytes"));
  EXPECT_FALSE(parse_recorded_requests("").ok());
  EXPECT_FALSE(parse_recorded_requests("\n \n").ok());
}

}  // namespace
}  // namespace tandem
