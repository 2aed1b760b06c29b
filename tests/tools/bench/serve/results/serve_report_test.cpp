#include "tools/bench/serve/results/serve_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/bench/serve/serve_options.h"
#include "tools/bench/serve/serve_progress.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

ServeReport small_report() {
  ServeReport report;
  report.conditions.command = "tandem bench serve";
  report.conditions.url = "http://h:1";
  report.conditions.model = "m";
  report.conditions.dataset = "random";
  report.conditions.metrics = {"ttft", "tpot", "itl", "e2el"};
  report.conditions.percentiles = {50, 99.9};
  report.conditions.adapters = {"a<b"};
  report.conditions.goodput.ttft_ms = 100;
  for (const std::int32_t adapter : {kBaseModel, 0}) {
    RequestRecord record;
    record.outcome = RequestOutcome::ok;
    record.adapter = adapter;
    record.first_touch = adapter == 0;
    record.first_s = 0.05;
    record.last_s = 0.25;
    record.end_s = 0.25;
    record.gaps_ms = {100, 100};
    record.prompt_tokens = 5;
    record.output_tokens = 3;
    report.records.push_back(record);
  }
  RequestRecord failed;
  failed.outcome = RequestOutcome::failed;
  failed.error = "HTTP 503: <busy>";
  report.records.push_back(failed);
  report.figures = figures_of(report.records, 0.5, report.conditions.goodput, CountFrom::due);
  return report;
}

TEST(ServeReport, JsonHasTheFieldsOfVllmsBenchmark) {
  const nlohmann::ordered_json json = small_report().to_json(false);
  EXPECT_EQ(json["completed"], 2);
  EXPECT_EQ(json["failed"], 1);
  EXPECT_EQ(json["request_rate"], "inf");
  EXPECT_EQ(json["request_throughput"], 4);
  EXPECT_EQ(json["request_goodput"], 4);
  EXPECT_EQ(json["output_throughput"], 12);
  EXPECT_EQ(json["total_token_throughput"], 32);
  EXPECT_NEAR(json["mean_ttft_ms"], 50, 1e-9);
  EXPECT_NEAR(json["median_tpot_ms"], 100, 1e-9);
  EXPECT_NEAR(json["std_itl_ms"], 0, 1e-9);
  EXPECT_NEAR(json["p99.9_e2el_ms"], 250, 1e-9);
  EXPECT_NEAR(json["p50_e2el_ms"], 250, 1e-9);
  EXPECT_FALSE(json.contains("ttfts"));
  EXPECT_EQ(json["adapters"].size(), 2U);
}

TEST(ServeReport, DetailsAreOneEntryARequestInSeconds) {
  const nlohmann::ordered_json json = small_report().to_json(true);
  EXPECT_EQ(json["ttfts"].size(), 3U);
  EXPECT_NEAR(json["ttfts"][0], 0.05, 1e-9);
  EXPECT_NEAR(json["itls"][0][1], 0.1, 1e-6);
  EXPECT_EQ(json["output_lens"], (nlohmann::json{3, 3, 0}));
  EXPECT_EQ(json["errors"][2], "HTTP 503: <busy>");
  EXPECT_EQ(json["adapters_asked"][1], "a<b");
}

TEST(ServeReport, TextNamesFailuresAndAdapters) {
  const std::string text = small_report().text();
  EXPECT_THAT(text, HasSubstr("1 failed: HTTP 503: <busy>"));
  EXPECT_THAT(text, HasSubstr("a<b"));
  EXPECT_THAT(text, HasSubstr("p99.9"));
}

TEST(CommandWithoutSecrets, HidesWhatHeadersSay) {
  EXPECT_EQ(command_without_secrets(
                {"--header", "X-Key=hush", "Y=hush", "--model", "a=b", "--header=Z=hush"}),
            "tandem bench serve --header X-Key=... Y=... --model a=b --header=Z=...");
}

TEST(ServeProgress, TellsWhatIsUnderWay) {
  LoadState state;
  state.elapsed_s = 2;
  state.sent = 30;
  state.running = 5;
  state.completed = 20;
  state.failed = 5;
  state.output_tokens = 400;
  state.last_ttft_ms = 41;
  EXPECT_EQ(progress_text(state, 100),
            "2.0 s  sent 30 of 100  running 5  answered 20  failed 5  10.0/s  200 tokens/s  "
            "ttft 41 ms");
}

}  // namespace
}  // namespace tandem
