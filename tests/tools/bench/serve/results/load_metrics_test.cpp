#include "tools/bench/serve/results/load_metrics.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

RequestRecord answered(double due_s, double sent_s, double first_s, double last_s,
                       std::int64_t tokens, std::int32_t adapter = kBaseModel) {
  RequestRecord record;
  record.outcome = RequestOutcome::ok;
  record.adapter = adapter;
  record.due_s = due_s;
  record.sent_s = sent_s;
  record.first_s = first_s;
  record.last_s = last_s;
  record.end_s = last_s;
  record.prompt_tokens = 10;
  record.output_tokens = tokens;
  return record;
}

TEST(SampleSpread, InterpolatesAsNumpyDoes) {
  const SampleSpread spread({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(spread.mean(), 2.5);
  EXPECT_DOUBLE_EQ(spread.median(), 2.5);
  EXPECT_DOUBLE_EQ(spread.percentile(90), 3.7);
  EXPECT_DOUBLE_EQ(spread.percentile(100), 4);
  EXPECT_DOUBLE_EQ(spread.deviation(), 1.118033988749895);
  EXPECT_DOUBLE_EQ(SampleSpread().percentile(99), 0);
}

TEST(LoadFigures, CountDelaysFromWhenARequestWasDue) {
  // The request was held back for 0.5 s before it was sent.
  const std::vector<RequestRecord> records = {answered(1, 1.5, 2, 4, 11)};
  const LoadFigures due = figures_of(records, 4, {}, CountFrom::due);
  EXPECT_DOUBLE_EQ(due.ttft_ms.mean(), 1000);
  EXPECT_DOUBLE_EQ(due.e2el_ms.mean(), 3000);
  EXPECT_DOUBLE_EQ(due.tpot_ms.mean(), 200);
  EXPECT_DOUBLE_EQ(due.send_delay_ms.mean(), 500);
  const LoadFigures sent = figures_of(records, 4, {}, CountFrom::sent);
  EXPECT_DOUBLE_EQ(sent.ttft_ms.mean(), 500);
  EXPECT_DOUBLE_EQ(sent.e2el_ms.mean(), 2500);
  EXPECT_DOUBLE_EQ(sent.tpot_ms.mean(), 200);
}

TEST(LoadFigures, ThroughputIsOfWhatWasAnsweredOverTheWholeRun) {
  std::vector<RequestRecord> records = {answered(0, 0, 1, 2, 5), answered(0, 0, 1, 3, 7)};
  records.emplace_back().outcome = RequestOutcome::failed;
  records.back().error = "HTTP 503: busy";
  records.emplace_back().outcome = RequestOutcome::interrupted;
  records.emplace_back();
  const LoadFigures figures = figures_of(records, 4, {}, CountFrom::due);
  EXPECT_EQ(figures.completed, 2);
  EXPECT_EQ(figures.failed, 1);
  EXPECT_EQ(figures.interrupted, 1);
  EXPECT_EQ(figures.unsent, 1);
  EXPECT_DOUBLE_EQ(figures.request_throughput, 0.5);
  EXPECT_DOUBLE_EQ(figures.output_throughput, 3);
  EXPECT_DOUBLE_EQ(figures.total_token_throughput, 8);
  EXPECT_EQ(figures.most_concurrent, 2);
  EXPECT_EQ(figures.errors.at("HTTP 503: busy"), 1);
}

TEST(LoadFigures, ARequestIsGoodIfItMeetsAllObjectives) {
  const std::vector<RequestRecord> records = {
      answered(0, 0, 0.1, 1.1, 11),  // ttft 100, tpot 100, e2el 1100
      answered(0, 0, 0.3, 1.3, 11),  // late
      answered(0, 0, 0.1, 3.1, 11),  // slow
      answered(0, 0, 0.1, 0.1, 1)};  // one token: no tpot that could miss the objective
  const LoadFigures figures =
      figures_of(records, 2, *parse_goodput({"ttft:200", "tpot:150"}), CountFrom::due);
  EXPECT_EQ(figures.good, 2);
  EXPECT_DOUBLE_EQ(figures.request_goodput, 1);
}

TEST(LoadFigures, TellColdFromWarmByTheServersWordElseByFirstTouch) {
  std::vector<RequestRecord> records = {answered(0, 0, 0.9, 1, 2, 0), answered(0, 0, 0.1, 1, 2, 0),
                                        answered(0, 0, 0.2, 1, 2, 1), answered(0, 0, 0.3, 1, 2, 1),
                                        answered(0, 0, 0.4, 1, 2)};
  records[0].first_touch = true;
  records[2].first_touch = true;
  records[2].adapter_tier = "device";  // resident before the run
  records[3].adapter_tier = "host";    // evicted meanwhile
  const LoadFigures figures = figures_of(records, 1, {}, CountFrom::due);
  ASSERT_EQ(figures.adapters.size(), 3U);
  EXPECT_EQ(figures.adapters[0].adapter, kBaseModel);
  EXPECT_EQ(figures.adapters[0].cold, 0);
  EXPECT_EQ(figures.adapters[1].cold, 1);
  EXPECT_DOUBLE_EQ(*figures.adapters[1].first_ttft_ms, 900);
  EXPECT_DOUBLE_EQ(figures.adapters[1].warm_ttft_ms.mean(), 100);
  EXPECT_DOUBLE_EQ(figures.adapters[2].warm_ttft_ms.mean(), 200);
  EXPECT_DOUBLE_EQ(figures.adapters[2].cold_ttft_ms.mean(), 300);
  EXPECT_EQ(figures.cold_ttft_ms.count(), 2U);
  EXPECT_EQ(figures.warm_ttft_ms.count(), 2U);  // the base counts as neither
}

TEST(LoadFigures, CountTheBusiestSecond) {
  std::vector<RequestRecord> records = {answered(0, 0, 0.5, 1.7, 3)};
  records[0].gaps_ms = {600, 600};  // tokens at 0.5, 1.1 and 1.7
  EXPECT_DOUBLE_EQ(figures_of(records, 2, {}, CountFrom::due).most_output_tokens_per_s, 2);
}

TEST(Goodput, RefusesWhatIsNoObjective) {
  for (const char* text : {"ttft", "ttft:", "ttft:0", "ttft:x", "itl:5", ":5"}) {
    EXPECT_FALSE(parse_goodput({text}).ok()) << text;
  }
  EXPECT_FALSE(parse_goodput({"ttft:1", "ttft:2"}).ok());
  EXPECT_EQ(parse_goodput({"e2el:5"})->e2el_ms, 5);
}

TEST(Percentiles, AreBetweenNoughtAndAHundred) {
  EXPECT_EQ(*parse_percentiles("50,99.9"), (std::vector<double>{50, 99.9}));
  for (const char* text : {"0", "100", "x", "50,,99"}) {
    EXPECT_FALSE(parse_percentiles(text).ok()) << text;
  }
}

}  // namespace
}  // namespace tandem
