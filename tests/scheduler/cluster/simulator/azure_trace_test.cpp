#include "scheduler/cluster/simulator/azure_trace.h"

#include <gtest/gtest.h>

#include <random>

#include "scheduler/cluster/simulator/popularity.h"

namespace tandem {
namespace {

const std::string kHead = "HashOwner,HashApp,HashFunction,Trigger,1,2,3\n";

TEST(AzureTrace, IsReadByFunctionAndMinute) {
  const auto trace = parse_azure_trace(kHead + "o,a,f,http,0,4,1\r\no,a,g,timer,2,0,0\n");
  ASSERT_TRUE(trace.ok()) << trace.status().message();
  EXPECT_EQ(trace->functions, 2);
  EXPECT_EQ(trace->calls(), 7);
  using Calls = std::vector<std::pair<std::int32_t, std::int32_t>>;
  EXPECT_EQ(trace->minutes, (std::vector<Calls>{{{1, 2}}, {{0, 4}}, {{0, 1}}}));
}

TEST(AzureTrace, RefusesAnythingElseAndNamesTheLine) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "line 1"},
      {"function,1,2\nf,1,2\n", "line 1"},
      {"HashOwner,HashApp,HashFunction,Trigger\n", "names no minute"},
      {"HashOwner,HashApp,HashFunction,Trigger,1,3\n", "minute 3 stands where 2"},
      {"HashOwner,HashApp,HashFunction,Trigger,1,x\n", "line 1"},
      {kHead, "no function"},
      {kHead + "o,a,f,http,0,0,0\n", "no function"},
      {kHead + "o,a,f\n", "line 2 has 3 columns"},
      {kHead + "o,a,f,http,1,2\n", "line 2 ends before minute 3"},
      {kHead + "o,a,f,http,1,2,3\no,a,g,http,1,2,3,4\n", "line 3 goes on"},
      {kHead + "o,a,f,http,1,2,\n", "line 2, minute 3"},
      {kHead + "o,a,f,http,1,-2,3\n", "line 2, minute 2"},
      {kHead + "o,a,f,http,1,2.5,3\n", "line 2, minute 2"},
      {kHead + "o,a,f,http,1, 2,3\n", "line 2, minute 2"},
      {kHead + "o,a,f,http,1,99999999999999999999,3\n", "line 2, minute 2"},
      {kHead + "o,a,f,http,1,10000001,3\n", "line 2, minute 2"},
      {kHead + "o,a,f,http,1,2,3\n\no,a,g,http,1,2,3\n", "line 3 has 1 columns"},
  };
  for (const auto& [text, expected] : cases) {
    const auto trace = parse_azure_trace(text);
    ASSERT_FALSE(trace.ok()) << text;
    EXPECT_NE(trace.status().message().find(expected), std::string::npos)
        << text << " gives: " << trace.status().message();
  }
}

TEST(AzureTrace, SurvivesBrokenBytes) {
  const auto weights = popularity_weights("azure", 30, 1);
  ASSERT_TRUE(weights.ok());
  const std::string good = make_azure_trace(*weights, 5, 4, 1);
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    std::string text = good;
    for (int edits = 0; edits < 4; ++edits) {
      text[random() % text.size()] = static_cast<char>(random() % 256);
    }
    text.resize(text.size() - random() % 40);
    const auto trace = parse_azure_trace(text);
    if (trace.ok()) {
      EXPECT_GT(trace->calls(), 0);
    }
  }
}

TEST(AzureTrace, OfTheGeneratorHasTheRateItWasAskedFor) {
  const auto weights = popularity_weights("azure", 2000, 1);
  ASSERT_TRUE(weights.ok());
  const auto trace = parse_azure_trace(make_azure_trace(*weights, 50, 10, 3));
  ASSERT_TRUE(trace.ok()) << trace.status().message();
  EXPECT_EQ(trace->functions, 2000);
  EXPECT_EQ(trace->minutes.size(), 10U);
  EXPECT_NEAR(static_cast<double>(trace->calls()), 50 * 600, 0.03 * 50 * 600);
}

}  // namespace
}  // namespace tandem
