// Tests the pages of runs and of comparisons.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/support/test_seed.h"
#include "tools/bench/serve/results/compare_results.h"
#include "tools/bench/serve/results/serve_report.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RequestRecord answered(double due_s, double ttft_s, std::int32_t adapter) {
  RequestRecord record;
  record.outcome = RequestOutcome::ok;
  record.adapter = adapter;
  record.due_s = record.sent_s = due_s;
  record.first_s = due_s + ttft_s;
  record.gaps_ms = {10, 10};
  record.last_s = record.end_s = record.first_s + 0.02;
  record.prompt_tokens = 5;
  record.output_tokens = 3;
  return record;
}

ServeReport report_of(std::vector<RequestRecord> records) {
  ServeReport report;
  report.conditions.command = "tandem bench serve --x '<y>'";
  report.conditions.url = "http://h:1";
  report.conditions.model = "m";
  report.conditions.metrics = {"ttft", "tpot", "itl", "e2el"};
  report.conditions.percentiles = {25, 90, 99, 99.9};
  report.conditions.adapters = {"a<b", "\x1b[2J\xff<script>alert(1)</script>"};
  report.records = std::move(records);
  report.figures = figures_of(report.records, 2, {}, CountFrom::due);
  return report;
}

// Makes times to the first token of 1, 2, ..., 1000 ms, in random order.
ServeReport report_of_even_times() {
  std::vector<RequestRecord> records;
  for (int i = 1; i <= 1000; ++i) records.push_back(answered(0, i * 1e-3, kBaseModel));
  std::shuffle(records.begin(), records.end(), std::mt19937_64(test_seed()));
  return report_of(std::move(records));
}

TEST(ServePage, ShowsTheExactPercentilesOfAnEvenDistribution) {
  // For the samples 1 .. n the p-th percentile is 1 + (n - 1) p / 100, and the deviation is the
  // square root of (n^2 - 1) / 12.
  const std::string page = report_of_even_times().to_html().text();
  std::string row = "Time to the first token (ttft)</td>";
  for (const double value : {500.5, 500.5, std::sqrt((1e6 - 1) / 12), 1 + 999 * 0.25, 1 + 999 * 0.9,
                             1 + 999 * 0.99, 1 + 999 * 0.999}) {
    row += fmt::format("<td class=\"n\">{:.2f}</td>", value);
  }
  EXPECT_THAT(page, HasSubstr(row));
  EXPECT_THAT(page, HasSubstr("<dd>500.50 ms</dd><dd class=\"note\">median; p99 990.01 ms</dd>"));
}

TEST(ServePage, ShowsThePercentilesOfAnExponentialDistribution) {
  // The samples are at the middles of n equal shares, so that their percentiles are those of the
  // distribution: -mean ln(1 - p).
  constexpr int kCount = 20'001;
  constexpr double kMeanS = 0.1;
  std::vector<RequestRecord> records;
  for (int i = 0; i < kCount; ++i) {
    records.push_back(answered(0, -kMeanS * std::log(1 - (i + 0.5) / kCount), kBaseModel));
  }
  const ServeReport report = report_of(std::move(records));
  for (const double percent : report.conditions.percentiles) {
    const double exact_ms = -kMeanS * 1e3 * std::log(1 - percent / 100);
    const double shown_ms = report.figures.ttft_ms.percentile(percent);
    EXPECT_NEAR(shown_ms / exact_ms, 1, 0.005) << percent;
    EXPECT_THAT(report.to_html().text(), HasSubstr(fmt::format("{:.2f}</td>", shown_ms)));
  }
}

TEST(ServePage, HasTheRunByTimeAndEveryModel) {
  const std::string page =
      report_of({answered(0.1, 0.05, kBaseModel), answered(0.5, 0.2, 0), answered(1.5, 0.1, 1)})
          .to_html()
          .text();
  for (const char* part :
       {"Requests a second", "Requests in progress", "Time to the first token, by due time",
        ">m</td>", ">a&lt;b</td>", "<table class=\"sorts\">", "warm adapter"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
}

TEST(ServePage, EscapesWhatServersAndCallersSay) {
  RequestRecord failed;
  failed.outcome = RequestOutcome::failed;
  failed.error = "HTTP 503: <busy>";
  const std::string page = report_of({answered(0, 0.05, 1), failed}).to_html().text();
  EXPECT_THAT(page, HasSubstr("HTTP 503: &lt;busy&gt;"));
  EXPECT_THAT(page, HasSubstr(">\uFFFD[2J\uFFFD&lt;script&gt;alert(1)&lt;/script&gt;</td>"));
  EXPECT_THAT(page, HasSubstr("--x '&lt;y&gt;'"));
  for (const char* raw : {"<busy>", "alert(1)<", "<y>"}) EXPECT_THAT(page, Not(HasSubstr(raw)));
}

TEST(ServePage, SaysThatNothingWasAnswered) {
  const std::string page = report_of({}).to_html().text();
  EXPECT_THAT(page, HasSubstr("<dt>requests answered</dt><dd>0</dd>"));
  EXPECT_THAT(page, Not(HasSubstr("nan")));
}

TEST(ComparisonPage, OverlaysDistributionsOfDetailedResultsAndSaysWhereTheyAreMissing) {
  const ServeReport report = report_of_even_times();
  const auto detailed = compare_results(report.to_json(true), report.to_json(true));
  ASSERT_TRUE(detailed.ok());
  const std::string page = detailed->to_html("a.json", "b<.json").text();
  EXPECT_THAT(page, HasSubstr("<figcaption>Latency (e2el)</figcaption>"));
  EXPECT_THAT(page, HasSubstr("b&lt;.json"));
  EXPECT_THAT(page, HasSubstr("<th scope=\"row\">a: command</th>"));
  EXPECT_THAT(page, Not(HasSubstr("No distributions")));

  const auto plain = compare_results(report.to_json(true), report.to_json(false));
  ASSERT_TRUE(plain.ok());
  EXPECT_THAT(plain->to_html("a", "b").text(),
              HasSubstr("No distributions: b has no times of single requests."));
  EXPECT_THAT(plain->to_html("a", "b").text(), Not(HasSubstr("<svg")));
}

}  // namespace
}  // namespace tandem
