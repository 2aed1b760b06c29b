#include "tools/report/plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tandem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t times = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++times;
  }
  return times;
}

TEST(CdfSeries, IsAStaircaseFromZeroToOne) {
  EXPECT_THAT(cdf_series("x", {3, 1}).points,
              ElementsAre(Pair(1, 0), Pair(1, 0.5), Pair(3, 0.5), Pair(3, 1)));
  EXPECT_TRUE(cdf_series("x", {}).points.empty());
}

TEST(CdfSeries, OfManyValuesKeepsTheLeastTheGreatestAndAFewHundred) {
  std::vector<double> values;
  for (int i = 0; i < 10007; ++i) values.push_back(i);
  const PlotSeries series = cdf_series("x", values);
  EXPECT_LT(series.points.size(), 1000U);
  EXPECT_EQ(series.points.front().first, 0);
  EXPECT_THAT(series.points.back(), Pair(10006, 1));
  for (std::size_t i = 1; i < series.points.size(); ++i) {
    EXPECT_LE(series.points[i - 1].first, series.points[i].first);
    EXPECT_LE(series.points[i - 1].second, series.points[i].second);
  }
}

TEST(CdfPlot, IsLogarithmicForValuesFarApartOnly) {
  EXPECT_FALSE(cdf_plot("", "", {cdf_series("a", {10, 20}), cdf_series("b", {100})}).log_x);
  EXPECT_TRUE(cdf_plot("", "", {cdf_series("a", {10, 20}), cdf_series("b", {500})}).log_x);
  EXPECT_FALSE(cdf_plot("", "", {cdf_series("a", {0, 500})}).log_x);
}

TEST(PlotHtml, DrawsLinesDotsAxesAndALegend) {
  Plot plot;
  plot.title = "a < b";
  plot.x_label = "tokens";
  plot.y_label = "ms";
  plot.series = {{"measured", {{1, 10}, {2, 20}}, PlotSeries::Mark::dots},
                 {"fitted", {{1, 11}, {2, 19}}, PlotSeries::Mark::line}};
  plot.note = "on one core";
  const std::string html = plot_html(plot);
  EXPECT_THAT(html, HasSubstr("a &lt; b"));
  EXPECT_EQ(count(html, "<path class=\"dots c0\""), 2U) << "the dots and their legend's";
  EXPECT_EQ(count(html, "a3 3 0 1 0 6 0"), 3U) << "circles: two dots, and the legend's";
  EXPECT_EQ(count(html, "<path class=\"line c1 l1\""), 2U);
  EXPECT_THAT(html, HasSubstr("class=\"legend\""));
  EXPECT_THAT(html, HasSubstr("on one core"));
  plot.series.pop_back();
  EXPECT_THAT(plot_html(plot), Not(HasSubstr("class=\"legend\"")));
}

TEST(PlotHtml, LeavesOutWhatItsAxesCannotShow) {
  const double nan = std::nan("");
  const double infinite = std::numeric_limits<double>::infinity();
  Plot plot;
  plot.series = {{"x", {{0, 1}, {nan, 1}, {1, infinite}, {5, 1}}, PlotSeries::Mark::dots}};
  plot.log_x = true;
  const std::string html = plot_html(plot);
  EXPECT_EQ(count(html, "a3 3 0 1 0 6 0"), 1U);
  EXPECT_THAT(html, Not(HasSubstr("nan")));
  EXPECT_THAT(html, Not(HasSubstr("inf")));
  plot.series = {};
  EXPECT_THAT(plot_html(plot), HasSubstr("nothing was measured"));
}

TEST(PlotHtml, HasAStyleOfItsOwnForEachOfManySeries) {
  Plot plot;
  for (int i = 0; i < 20; ++i) plot.series.push_back({"x", {{1, i}}, PlotSeries::Mark::line});
  const std::string html = plot_html(plot);
  EXPECT_EQ(count(html, "c0 l0\""), 2U);
  EXPECT_EQ(count(html, "c0 l1\""), 2U);
  EXPECT_EQ(count(html, "c1 l3\""), 2U);
}

TEST(PlotHtml, TellsManyLinesApartByShapes) {
  Plot plot;
  for (int i = 0; i < 4; ++i) plot.series.push_back({"x", {{1, i}, {2, i}}});
  EXPECT_THAT(plot_html(plot), Not(HasSubstr("shapes")));
  plot.series.push_back({"x", {{1, 1}, {2, 2}}});
  EXPECT_EQ(count(plot_html(plot), "<path class=\"shapes c4\""), 2U)
      << "on the line, in the legend";
}

TEST(PlotHtml, DrawsASeriesThatStandsOutLastInTheFirstStyle) {
  Plot plot;
  plot.series = {{"a", {{1, 1}, {2, 2}}}, {"b", {{1, 3}, {2, 4}}}, {"c", {{1, 5}, {2, 6}}}};
  plot.series[1].stands_out = true;
  const std::string html = plot_html(plot);
  const std::size_t out = html.find("<path class=\"line out c0 l0\"");
  ASSERT_NE(out, std::string::npos);
  EXPECT_LT(html.find("<path class=\"line c1 l1\""), out) << "a";
  EXPECT_LT(html.find("<path class=\"line c2 l2\""), out) << "c";
}

TEST(CdfPlot, IsLabelledByPercentiles) {
  const std::string html = plot_html(cdf_plot("", "ms", {cdf_series("a", {1, 2, 3})}));
  for (const char* label : {">p50<", ">p90<", ">p99<"}) EXPECT_EQ(count(html, label), 1U) << label;
}

TEST(PlotHtml, DrawsEqualValues) {
  for (const double value : {0.0, 7.0}) {
    for (const bool logarithmic : {false, true}) {
      Plot plot;
      plot.series = {{"x", {{value, value}, {value, value}}, PlotSeries::Mark::line}};
      plot.log_x = plot.log_y = logarithmic;
      EXPECT_THAT(plot_html(plot), Not(HasSubstr("nan"))) << value;
    }
  }
}

}  // namespace
}  // namespace tandem
