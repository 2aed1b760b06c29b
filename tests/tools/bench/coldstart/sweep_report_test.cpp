#include "tools/bench/coldstart/sweep_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem {
namespace {

using ::testing::EndsWith;

const std::vector<AdapterMode> kModes = {AdapterMode::cached, AdapterMode::planned,
                                         AdapterMode::pipelined, AdapterMode::on_demand};

// `planned` and `other` (the better of two): seconds.
SweepCell cell(double link_gbps, bool on_disk, double planned, double other) {
  SweepCell cell;
  cell.link_gbps = link_gbps;
  cell.on_disk = on_disk;
  cell.burst = {2, 64, 16};
  cell.ttfts = {
      {other / 10, other / 10}, {planned, planned}, {other * 2, other * 2}, {other, other}};
  return cell;
}

Bar n1_of(const std::vector<SweepCell>& cells) {
  BenchReport report("coldstart", "");
  report_sweep(cells, kModes, report);
  EXPECT_EQ(report.bars().size(), 1U);
  return report.bars().at(0);
}

TEST(SweepReport, TellsOfTheWorstCellItsLinkAndItsTier) {
  const SweepCell host = cell(5, false, 1, 1), disk = cell(5, true, 1.5, 1);
  const Bar bar = n1_of({host, disk, cell(0, true, 1.25, 1)});
  EXPECT_EQ(bar.id, "N1");
  EXPECT_THAT(bar.what, EndsWith("2 x 64 tokens, rank 16, 5 GB/s link, on disk"));
  EXPECT_EQ(bar.value, 1.5);
  EXPECT_FALSE(bar.ok());
  EXPECT_THAT(n1_of({disk, cell(0, false, 2, 1)}).what, EndsWith("native link, in host memory"));
}

TEST(SweepReport, AsksForFivePercentAtMostInEveryCell) {
  EXPECT_TRUE(n1_of({cell(5, false, 1, 1), cell(5, true, 1.0625, 1.0125)}).ok());
  EXPECT_FALSE(n1_of({cell(5, false, 0.5, 1), cell(5, true, 1.0625, 1)}).ok());
}

TEST(SweepReport, HasATableForEachLinkAndTier) {
  BenchReport report("coldstart", "");
  report_sweep(
      {cell(5, false, 1, 1), cell(5, true, 1, 1), cell(0, true, 1, 1), cell(5, true, 1, 1)}, kModes,
      report);
  const nlohmann::json tables = report.to_json()["tables"];
  ASSERT_EQ(tables.size(), 3U);
  EXPECT_THAT(tables[1]["title"].get<std::string>(),
              EndsWith("5 GB/s link, on disk; milliseconds"));
  EXPECT_EQ(tables[1]["rows"].size(), 2U);
}

TEST(SweepReport, TellsByMediansWhatOneBurstThatWasHeldUpHides) {
  SweepCell held_up = cell(10, false, 0, 0);
  held_up.ttfts = {{1, 1}, {1, 1, 1, 1, 9, 9}, {2, 2, 2, 2, 2, 2}, {4, 4, 4, 4, 4, 4}};
  BenchReport report("coldstart", "");
  report_sweep({held_up}, kModes, report);
  const nlohmann::json row = report.to_json()["tables"][0]["rows"][0];
  EXPECT_NEAR(row[row.size() - 3].get<double>(), 22.0 / 6 / 2, 1e-9);
  EXPECT_NEAR(row[row.size() - 2].get<double>(), 0.5, 1e-9);
  EXPECT_EQ(row.size(), report.to_json()["tables"][0]["head"].size());
}

}  // namespace
}  // namespace tandem
