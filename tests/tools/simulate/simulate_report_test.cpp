#include "tools/simulate/simulate_report.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

PolicyResult made_up_result(const std::string& policy, double ttft_ms) {
  PolicyResult result;
  result.policy = policy;
  result.requests = 100;
  result.slo_attainment = 0.5;
  result.ttft_ms = {ttft_ms, ttft_ms / 2, ttft_ms * 2, {{ttft_ms / 2, 0.5}, {ttft_ms * 2, 1}}};
  result.queue = {{1, 7, 3, 5, 2}, {2, 9, 4, 6, 3}};
  result.tpot_ms = result.token_ms = result.latency_ms = result.ttft_ms;
  return result;
}

SimulateReport made_up_report() {
  SimulateReport report;
  report.command = "tandem simulate --compare a,b";
  report.machine = "a <card>";
  report.setting = {{"engines", 60}, {"arrivals", "poisson"}};
  report.slo_token_ms = 48;
  report.policies = {made_up_result("random", 80), made_up_result("tandem", 50)};
  return report;
}

TEST(SimulateReport, HasAPolicyForEachInItsJson) {
  const auto json = made_up_report().to_json();
  EXPECT_EQ(json["setting"]["engines"], 60);
  ASSERT_EQ(json["policies"].size(), 2U);
  const auto& tandem = json["policies"][1];
  EXPECT_EQ(tandem["policy"], "tandem");
  EXPECT_EQ(tandem["slo_attainment"], 0.5);
  EXPECT_EQ(tandem["queue"], (nlohmann::ordered_json{{1.0, 7, 3, 5, 2}, {2.0, 9, 4, 6, 3}}));
  for (const char* figure : {"ttft_ms", "tpot_ms", "time_per_token_ms", "latency_ms"}) {
    EXPECT_EQ(tandem[figure]["mean"], 50) << figure;
    EXPECT_EQ(tandem[figure]["p50"], 25) << figure;
    EXPECT_EQ(tandem[figure]["p99"], 100) << figure;
    EXPECT_EQ(tandem[figure]["cdf"][1][1], 1) << figure;
  }
}

TEST(SimulateReport, IsOnePageThatSetsOffTheBest) {
  const std::string page = made_up_report().to_html().text();
  EXPECT_NE(page.find("a &lt;card&gt;"), std::string::npos);
  EXPECT_NE(page.find("<td class=\"best n\">50.0</td>"), std::string::npos);
  EXPECT_NE(page.find("<td class=\"n\">80.0</td>"), std::string::npos);
  EXPECT_NE(page.find("<svg"), std::string::npos);
  EXPECT_NE(page.find("The engine with the longest queue"), std::string::npos);
  EXPECT_EQ(page.find("http"), std::string::npos);  // loads nothing from elsewhere
}

TEST(SimulateReport, SetsOffTandemsLineAndEndsLinesAtP99) {
  SimulateReport report = made_up_report();
  report.policies[0].ttft_ms.cdf.emplace_back(1e6, 1);
  const std::string page = report.to_html().text();
  EXPECT_NE(page.find("<li class=\"out\">"), std::string::npos);
  EXPECT_NE(page.find("<path class=\"line out c0 l0\""), std::string::npos);
  EXPECT_EQ(page.find(">500k<"), std::string::npos) << "an axis as long as the longest request";
}

TEST(SimulateReport, HasARowAsWideAsItsHead) {
  const std::string head = simulate_table_head();
  EXPECT_EQ(simulate_table_row(made_up_result("round_robin", 75)).size(), head.size());
}

}  // namespace
}  // namespace tandem
