#include "tools/bench/common/bench_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "tools/cli/flags/flags.h"

namespace tandem {
namespace {

using testing::HasSubstr;

BenchReport report_with(double value) {
  BenchReport report("engine", "tandem bench engine");
  report.add({"H1", "share of the bandwidth", value, "", Must::be_at_least, 0.7});
  report.add({"H5", "memory", 20, "MB", Must::be_at_most, 200});
  report.add(Samples{"step", "ms", {3, 1, 2}});
  report.fact("threads", 2);
  return report;
}

TEST(Samples, TakesNearestRanks) {
  const Samples samples{"x", "ms", {5, 1, 4, 2, 3}};
  EXPECT_EQ(samples.median(), 3);
  EXPECT_EQ(samples.percentile(0), 1);
  EXPECT_EQ(samples.percentile(0.8), 4);
  EXPECT_EQ(samples.percentile(0.99), 5);
  EXPECT_EQ(samples.percentile(1), 5);
  EXPECT_EQ((Samples{"x", "ms", {2, 1}}).median(), 1);
}

TEST(Bar, IsMetOnItsOwnSideOnly) {
  EXPECT_TRUE((Bar{"a", "", 0.7, "", Must::be_at_least, 0.7}).ok());
  EXPECT_FALSE((Bar{"a", "", 0.69, "", Must::be_at_least, 0.7}).ok());
  EXPECT_TRUE((Bar{"a", "", 1.5, "", Must::be_at_most, 1.5}).ok());
  EXPECT_FALSE((Bar{"a", "", 1.51, "", Must::be_at_most, 1.5}).ok());
}

TEST(BenchReport, AMissedBarIsSaidAndFailsTheCheckOnly) {
  const BenchReport good = report_with(0.8);
  const BenchReport bad = report_with(0.6);
  EXPECT_TRUE(good.all_ok());
  EXPECT_FALSE(bad.all_ok());
  EXPECT_THAT(bad.table(), HasSubstr("MISSED"));
  EXPECT_EQ(good.table().find("MISSED"), std::string::npos);
  EXPECT_EQ(*bad.finish({"", "", false}), kExitOk);
  EXPECT_EQ(*bad.finish({"", "", true}), kExitFailure);
  EXPECT_EQ(*good.finish({"", "", true}), kExitOk);
}

TEST(BenchReport, ABarThatIsNotJudgedIsSaidToBeAndFailsNothing) {
  BenchReport report = report_with(0.8);
  report.add({"T1", "two devices over one", 1.2, "", Must::be_at_most, 0.62, false});
  EXPECT_TRUE(report.all_ok());
  EXPECT_EQ(*report.finish({"", "", true}), kExitOk);
  EXPECT_THAT(report.table(), HasSubstr("<= 0.620  not judged"));
  EXPECT_EQ(report.to_json()["bars"][2]["judged"], false);
  EXPECT_THAT(report.to_html().text(), HasSubstr("2 of 2"));
}

TEST(BenchReport, TablesStandSideBySideInTextAndJson) {
  BenchReport report("coldstart", "");
  report.add(ReportTable{"Side by side", {"mode", "ms"}, {{"cached", 1.25}, {"planned", 7}}});
  EXPECT_THAT(report.table(), HasSubstr("  Side by side\n"
                                        "  mode          ms\n"
                                        "  cached     1.250\n"
                                        "  planned        7\n"));
  EXPECT_EQ(report.to_json()["tables"][0]["rows"][0][1], 1.25);
}

TEST(BenchReport, ARatioToNothingIsShort) {
  BenchReport report("coldstart", "");
  report.add({"C2", "overhead", std::numeric_limits<double>::max(), "", Must::be_at_most, 0.25});
  EXPECT_THAT(report.table(), HasSubstr(" 1.8e+308 "));
  EXPECT_THAT(report.to_html().text(), HasSubstr("<td class=\"n\">1.8e+308</td>"));
}

TEST(BenchReport, ColumnsStayApartWhateverTheirTextsAre) {
  BenchReport report("engine", "tandem bench engine");
  const std::string longer(70, 'x');
  report.add({"link", longer + "1", 0.5, "", Must::be_at_least, 0.7});
  report.add(Samples{longer + "2", "ms", {3}});
  report.fact(longer + "3", "a fact");
  EXPECT_THAT(report.table(), HasSubstr("link " + longer + "1 "));
  EXPECT_THAT(report.table(), HasSubstr(longer + "2 "));
  EXPECT_THAT(report.table(), HasSubstr(longer + "3 a fact"));
}

TEST(BenchReport, ThePageHasBarsSamplesFactsAndPlots) {
  BenchReport report = report_with(0.6);
  report.add(cdf_plot("TTFT", "ms", {cdf_series("cached", {1, 2, 3})}));
  report.add(ReportTable{"Side by side", {"mode", "ms"}, {{"cached", 1.25}, {"planned", 7}}});
  const auto path = std::filesystem::path(testing::TempDir()) / "tandem_bench_report.html";
  ASSERT_TRUE(report.finish({"", path.string(), false}));
  std::ifstream file(path);
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  for (const char* part :
       {"<td>H1</td>", "class=\"bad\">MISSED", "class=\"good\">met",
        "<dt>bars met</dt><dd class=\"bad\">1 of 2</dd>", "<td>step</td>",
        "<th scope=\"row\">threads</th><td>2</td>", "<figcaption>TTFT</figcaption>", "<svg",
        "<h2>Side by side</h2>", "<td class=\"n\">1.250</td>"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  EXPECT_EQ(page.find("http"), std::string::npos) << "it must not need anything from elsewhere";
}

TEST(BenchReport, ThePageHasDistributionsOfSamplesWhereNobodyDrewPlots) {
  BenchReport report = report_with(0.8);
  EXPECT_THAT(report.to_html().text(),
              testing::AllOf(HasSubstr("<h2>Distributions</h2>"), HasSubstr("<figcaption>step<")));
  report.add(cdf_plot("TTFT", "ms", {cdf_series("cached", {1, 2, 3})}));
  EXPECT_THAT(report.to_html().text(), testing::Not(HasSubstr("<figcaption>step<")));
}

TEST(BenchReport, JsonHasBarsSamplesMachineCommitAndCommand) {
  const auto path = std::filesystem::path(testing::TempDir()) / "tandem_bench_report.json";
  ASSERT_TRUE(report_with(0.6).finish({path.string(), "", false}));
  std::ifstream file(path);
  const nlohmann::json json = nlohmann::json::parse(file);
  EXPECT_EQ(json["command"], "tandem bench engine");
  EXPECT_FALSE(json["commit"].get<std::string>().empty());
  EXPECT_GE(json["machine"]["cores_usable"], 1);
  ASSERT_EQ(json["bars"].size(), 2U);
  const nlohmann::json& bar = json["bars"][0];
  EXPECT_EQ(bar["id"], "H1");
  EXPECT_EQ(bar["value"], 0.6);
  EXPECT_EQ(bar["unit"], "");
  EXPECT_EQ(bar["bar"], 0.7);
  EXPECT_EQ(bar["ok"], false);
  EXPECT_EQ(json["samples"][0]["median"], 2);
  EXPECT_EQ(json["samples"][0]["values"].size(), 3U);
  EXPECT_EQ(json["facts"]["threads"], 2);
  std::filesystem::remove(path);
}

TEST(BenchReport, AFileThatCannotBeWrittenIsAnError) {
  const Result<int> status = report_with(0.8).finish({"no/such/folder/x.json", "", false});
  ASSERT_FALSE(status);
  EXPECT_THAT(status.status().message(), HasSubstr("no/such/folder/x.json"));
}

}  // namespace
}  // namespace tandem
