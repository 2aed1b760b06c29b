#include "tools/bench/coldstart/cost_healing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace tandem {
namespace {

using ::testing::HasSubstr;

CostHealing healing(double cost_error, std::uint64_t steps, double median_error) {
  return {cost_error, {{50, 200, 0.2, 0.6, 2}, {120, steps, 0.4, 0.5, median_error}}};
}

nlohmann::json reported(const std::vector<CostHealing>& healings) {
  BenchReport report("coldstart", "");
  report_healing(healings, report);
  return report.to_json();
}

TEST(CostHealing, IsJudgedByTheWorseOfBothErrorsAtTheEnd) {
  for (const auto& [long_error, short_error] : {std::pair(0.05, 0.07), {0.07, 0.05}}) {
    const nlohmann::json report =
        reported({healing(3, 100, long_error), healing(1.0 / 3, 64, short_error)});
    ASSERT_EQ(report["bars"].size(), 1U);
    EXPECT_EQ(report["bars"][0]["id"], "N2");
    EXPECT_NEAR(report["bars"][0]["value"].get<double>(), 7, 1e-9);
    EXPECT_EQ(report["bars"][0]["ok"], true);
  }
  const nlohmann::json missed = reported({healing(3, 100, 0.05), healing(1.0 / 3, 64, 0.11)});
  EXPECT_EQ(missed["bars"][0]["ok"], false);
}

TEST(CostHealing, IsShownStageByStage) {
  const nlohmann::json report = reported({healing(3, 100, 0.05), healing(1.0 / 3, 64, 0.07)});
  const nlohmann::json& rows = report["tables"][0]["rows"];
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0][0], "3 times too long");
  EXPECT_EQ(rows[2][0], "3 times too short");
  EXPECT_EQ(rows[0][1], 50);
  EXPECT_DOUBLE_EQ(rows[0][3].get<double>(), 1) << "milliseconds a step";
  EXPECT_DOUBLE_EQ(rows[0][4].get<double>(), 3);
  EXPECT_DOUBLE_EQ(rows[0][5].get<double>(), 200) << "%";
}

// A median that includes earlier steps says nothing about the later ones.
TEST(CostHealing, IsNotJudgedByFewerStepsThanAreRemembered) {
  const nlohmann::json report = reported({healing(3, 63, 0.05), healing(1.0 / 3, 64, 0.07)});
  EXPECT_TRUE(report["bars"].empty());
  EXPECT_THAT(report["facts"].dump(), HasSubstr("63 steps of the last 70 cold starts"));
}

TEST(CostHealing, IsNotJudgedWithoutWorkers) {
  const nlohmann::json report = reported({{3, {}}, {1.0 / 3, {}}});
  EXPECT_TRUE(report["bars"].empty());
  EXPECT_TRUE(report["tables"].empty());
  EXPECT_THAT(report["facts"].dump(), HasSubstr("no CPU workers"));
}

}  // namespace
}  // namespace tandem
