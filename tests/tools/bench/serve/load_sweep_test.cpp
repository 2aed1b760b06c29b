#include "tools/bench/serve/load_sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/bench/serve/results/compare_results.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Returns the report of 20 requests at a server that can serve `capacity` requests per second.
ServeReport served(double rate, double capacity, bool has_objective) {
  ServeReport report;
  report.conditions.metrics = {"ttft", "e2el"};
  report.conditions.percentiles = {99};
  report.conditions.model = "m";
  report.conditions.request_rate = rate;
  if (has_objective) report.conditions.goodput.e2el_ms = 150;
  for (int i = 0; i < 20; ++i) {
    RequestRecord record;
    record.outcome = RequestOutcome::ok;
    record.due_s = i / rate;
    record.sent_s = record.due_s;
    record.first_s = i / std::min(rate, capacity) + 0.05;
    record.last_s = record.first_s + 0.05;
    record.end_s = record.last_s;
    record.output_tokens = 2;
    report.records.push_back(record);
  }
  report.figures = figures_of(report.records, report.records.back().end_s,
                              report.conditions.goodput, CountFrom::due);
  return report;
}

LoadSweep swept(const char* range, double capacity, bool has_objective,
                std::vector<double>& tried) {
  auto sweep =
      run_load_sweep(*parse_sweep_range(range), 0.95,
                     [&](double value, std::int64_t) -> Result<std::optional<ServeReport>> {
                       tried.push_back(value);
                       return std::optional(served(value, capacity, has_objective));
                     });
  EXPECT_TRUE(sweep.ok());
  return std::move(*sweep);
}

TEST(LoadSweep, DoublesUntilItIsPastTheKneeAndThenLooksBetween) {
  for (const bool has_objective : {true, false}) {
    std::vector<double> tried;
    const LoadSweep sweep = swept("request-rate=1..64", 11, has_objective, tried);
    ASSERT_GE(tried.size(), 5U);
    EXPECT_THAT(std::vector<double>(tried.begin(), tried.begin() + 5), ElementsAre(1, 2, 4, 8, 16));
    ASSERT_TRUE(sweep.knee);
    EXPECT_GE(*sweep.knee, 11);
    EXPECT_LT(*sweep.knee, 13.5);
    EXPECT_TRUE(std::ranges::is_sorted(sweep.points, {}, &SweepPoint::value));
  }
}

TEST(LoadSweep, SaysWhenTheRangeEndsBeforeTheKneeOrBeginsPastIt) {
  std::vector<double> tried;
  const LoadSweep high = swept("request-rate=1..6", 100, true, tried);
  EXPECT_THAT(tried, ElementsAre(1, 2, 4, 6));
  EXPECT_EQ(*high.knee, 6);
  EXPECT_THAT(high.text(), HasSubstr("the end of the range"));
  tried.clear();
  const LoadSweep low = swept("request-rate=10..60", 1, true, tried);
  EXPECT_THAT(tried, ElementsAre(10));
  EXPECT_FALSE(low.knee);
  EXPECT_THAT(low.text(), HasSubstr("not even at 10"));
}

TEST(LoadSweep, OfLimitsEndsWhereTwiceAsManyBringLittle) {
  const auto sweep =
      run_load_sweep(*parse_sweep_range("max-concurrency=1..64"), 0.95,
                     [&](double value, std::int64_t) -> Result<std::optional<ServeReport>> {
                       ServeReport report = served(10, 10, false);
                       report.figures.output_throughput = std::min(value, 8.5) * 100;
                       return std::optional(report);
                     });
  ASSERT_TRUE(sweep.ok());
  EXPECT_EQ(*sweep->knee, 8);
  EXPECT_EQ(sweep->points.back().value, 16);
}

TEST(LoadSweep, RefusesWhatIsNoRange) {
  for (const char* text :
       {"", "request-rate", "request-rate=1", "request-rate=2..1", "request-rate=0..1", "rate=1..2",
        "max-concurrency=1.5..3", "request-rate=1..x"}) {
    EXPECT_FALSE(parse_sweep_range(text).ok()) << text;
  }
}

TEST(CompareResults, PutsFiguresSideBySideAndSaysWhatIsBetter) {
  const auto comparison =
      compare_results(served(4, 100, true).to_json(false), served(8, 100, true).to_json(false));
  ASSERT_TRUE(comparison.ok()) << comparison.status().message();
  const auto named = [&](const std::string& name) {
    const auto found = std::ranges::find(comparison->figures, name, &ComparedFigure::name);
    EXPECT_NE(found, comparison->figures.end()) << name;
    return *found;
  };
  EXPECT_TRUE(named("request_throughput").is_better());
  EXPECT_NEAR(named("mean_ttft_ms").change(), 0, 1e-9);
  EXPECT_THAT(comparison->differences, ElementsAre("request_rate: 4.0, 8.0"));
  EXPECT_THAT(comparison->text("x", "y"), HasSubstr("better"));
}

TEST(CompareResults, TakesVllmsResultsAndSweepsAndRefusesOtherThings) {
  const nlohmann::ordered_json vllm = {{"request_throughput", 2.0}, {"mean_ttft_ms", 40.0}};
  EXPECT_EQ(compare_results(vllm, served(4, 100, true).to_json(false))->figures.size(), 2U);
  std::vector<double> tried;
  const auto one = swept("request-rate=1..8", 100, true, tried).to_json(false);
  const auto other = swept("request-rate=2..4", 100, true, tried).to_json(false);
  const auto sweeps = compare_results(one, other);
  ASSERT_TRUE(sweeps.ok()) << sweeps.status().message();
  EXPECT_EQ(sweeps->figures[0].name, "knee");
  EXPECT_EQ(sweeps->figures[1].name.substr(0, 3), "2: ");
  EXPECT_FALSE(compare_results(one, vllm).ok());
  EXPECT_FALSE(compare_results({{"x", 1}}, vllm).ok());
}

}  // namespace
}  // namespace tandem
