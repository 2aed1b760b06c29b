#include "tools/bench/common/sample_plots.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

std::vector<std::string> titles_of(const std::vector<Plot>& plots) {
  std::vector<std::string> titles;
  for (const Plot& plot : plots) titles.push_back(plot.title);
  return titles;
}

TEST(SamplePlots, PutWhatIsToBeComparedIntoOnePlot) {
  const std::vector<Plot> plots = sample_plots({{"decode step, batch 1", "ms", {3, 1, 2}},
                                                {"decode step, batch 8", "ms", {5, 4}},
                                                {"memory read", "GB/s", {20, 21}}});
  ASSERT_EQ(titles_of(plots), (std::vector<std::string>{"decode step, batch", "memory read"}));
  EXPECT_EQ(plots[0].x_label, "ms");
  ASSERT_EQ(plots[0].series.size(), 2U);
  EXPECT_EQ(plots[0].series[0].name, "decode step, batch 1");
  // A staircase: at each value it rises from the share below it to the share up to it.
  const std::vector<std::pair<double, double>> stairs = {{1, 0},       {1, 1.0 / 3}, {2, 1.0 / 3},
                                                         {2, 2.0 / 3}, {3, 2.0 / 3}, {3, 1}};
  EXPECT_EQ(plots[0].series[0].points, stairs);
  EXPECT_TRUE(plots[0].of_percentiles);
  EXPECT_EQ(plots[1].series.size(), 1U);
}

TEST(SamplePlots, KeepApartWhatOneAxisWouldFlatten) {
  const std::vector<Plot> plots =
      sample_plots({{"decode", "ms", {1, 2}}, {"prefill", "ms", {20, 21}}});
  EXPECT_EQ(titles_of(plots), (std::vector<std::string>{"decode", "prefill"}));
  EXPECT_FALSE(plots[0].log_x);
}

TEST(SamplePlots, HaveNoMoreLinesThanCanBeToldApart) {
  std::vector<Samples> samples;
  for (int i = 0; i < 8; ++i) samples.push_back({"case" + std::to_string(i), "us", {1, 2}});
  const std::vector<Plot> plots = sample_plots(samples);
  ASSERT_EQ(titles_of(plots), (std::vector<std::string>{"In us", "In us"}));
  EXPECT_EQ(plots[0].series.size(), 6U);
  EXPECT_EQ(plots[1].series.size(), 2U);
}

TEST(SamplePlots, SayNothingOfOneValue) {
  EXPECT_TRUE(sample_plots({{"once", "ms", {1}}}).empty());
  EXPECT_TRUE(sample_plots({}).empty());
}

}  // namespace
}  // namespace tandem
