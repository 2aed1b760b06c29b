#include "tools/bench/measure/bench_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tools/bench/common/bench_selection.h"

namespace tandem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::pair<double, double> means(const std::string& text) {
  LengthDistribution lengths = *LengthDistribution::parse(text);
  std::mt19937_64 random(7);
  constexpr int kDraws = 50000;
  double prompt = 0;
  double output = 0;
  for (int i = 0; i < kDraws; ++i) {
    const auto [in, out] = lengths.draw(random);
    EXPECT_GE(in, 1);
    EXPECT_GE(out, 2);
    prompt += in;
    output += out;
  }
  return {prompt / kDraws, output / kDraws};
}

TEST(LengthDistribution, HasTheMeansItIsNamedFor) {
  const auto [alpaca_in, alpaca_out] = means("alpaca");
  EXPECT_NEAR(alpaca_in, 19, 0.4);
  EXPECT_NEAR(alpaca_out, 58, 1.5);
  const auto [share_in, share_out] = means("sharegpt");
  EXPECT_NEAR(share_in, 161, 8);
  EXPECT_NEAR(share_out, 338, 22);
  const auto [low, high] = means("uniform[3,9]");
  EXPECT_NEAR(low, 6, 0.1);
  EXPECT_NEAR(high, 6, 0.1);
}

TEST(LengthDistribution, TakesPairsOfAFileInOrderAgainAndAgain) {
  const auto path = std::filesystem::path(testing::TempDir()) / "tandem_lengths.txt";
  std::ofstream(path) << "# prompt answer\n5 6\n\n7 8\n";
  LengthDistribution lengths = *LengthDistribution::parse(path.string());
  std::mt19937_64 random(1);
  EXPECT_THAT(lengths.draw(random), Pair(5, 6));
  EXPECT_THAT(lengths.draw(random), Pair(7, 8));
  EXPECT_THAT(lengths.draw(random), Pair(5, 6));
  std::ofstream(path) << "5\n";
  const auto bad = LengthDistribution::parse(path.string());
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.status().message(), HasSubstr("line 1"));
}

TEST(LengthDistribution, RefusesWhatItDoesNotKnow) {
  for (const char* text : {"alpacas", "uniform[9,3]", "uniform[0,3]", "uniform 3,9"}) {
    EXPECT_FALSE(LengthDistribution::parse(text)) << text;
  }
}

TEST(PoissonTrace, AsksForEachAdapterOnceAtTheRateAndAlikeForASeed) {
  std::vector<std::string> names;
  for (int i = 0; i < 4000; ++i) names.push_back(std::to_string(i));
  const LengthDistribution lengths = *LengthDistribution::parse("alpaca");
  const ArrivalTrace trace = poisson_trace(names, 9, lengths, 3);
  ASSERT_EQ(trace.size(), names.size());
  EXPECT_NEAR(trace.back().at_s, 4000 / 9.0, 4000 / 9.0 * 0.06);
  const ArrivalTrace again = poisson_trace(names, 9, lengths, 3);
  for (std::size_t i = 0; i < trace.size(); ++i) {
    EXPECT_EQ(trace[i].adapter, names[i]);
    EXPECT_EQ(trace[i].at_s, again[i].at_s);
    EXPECT_EQ(trace[i].prompt_tokens, again[i].prompt_tokens);
    if (i > 0) {
      EXPECT_LE(trace[i - 1].at_s, trace[i].at_s);
    }
  }
  EXPECT_NE(poisson_trace(names, 9, lengths, 4).back().at_s, trace.back().at_s);
}

TEST(MergeTraces, KeepsBothInTheOrderOfTime) {
  const ArrivalTrace both = merge_traces({{1, "a", 1, 2}, {3, "b", 1, 2}}, {{2, "c", 1, 2}});
  std::vector<std::string> names;
  for (const TracedRequest& request : both) names.push_back(request.adapter);
  EXPECT_THAT(names, ElementsAre("a", "c", "b"));
}

TEST(BarSelection, OfNothingIsEverythingAndOfOthersOnlyThem) {
  const BarSelection all = *BarSelection::parse("", {"C1", "C2"});
  EXPECT_TRUE(all.any("C2"));
  const BarSelection some = *BarSelection::parse("C2", {"C1", "C2"});
  EXPECT_FALSE(some.any("C1"));
  EXPECT_TRUE(some.any("C1", "C2"));
  const auto wrong = BarSelection::parse("C2,C9", {"C1", "C2"});
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.status().message(), HasSubstr("'C9' is none of C1, C2"));
}

}  // namespace
}  // namespace tandem
