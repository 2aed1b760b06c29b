// Runs benchmarks as commands: real processes on small models, their reports and refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/tools/process.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

// Timings on a busy machine mean nothing, so the test only checks that everything is measured.
TEST(BenchColdStart, RunsEveryModeAndReportsBarsTablesAndPlots) {
  const std::string base =
      (std::filesystem::path(::testing::TempDir()) / ("tandem_cold_" + std::to_string(getpid())))
          .string();
  const Finished bench = run_tandem({"bench",
                                     "coldstart",
                                     "--device",
                                     "host",
                                     "--no-pin",
                                     "--model",
                                     "data/tiny-llama",
                                     "--requests",
                                     "3",
                                     "--rate",
                                     "100",
                                     "--lengths",
                                     "uniform[2,6]",
                                     "--bursts",
                                     "1",
                                     "--rank",
                                     "64",
                                     "--slow-gbps",
                                     "1",
                                     "--only",
                                     "C1,C2,C3,C4,C5,C8",
                                     "--json",
                                     base + ".json",
                                     "--html",
                                     base + ".html"});
  ASSERT_EQ(bench.status, 0) << bench.error;
  std::ifstream file(base + ".json");
  const nlohmann::json report = nlohmann::json::parse(file);
  std::map<std::string, int> bars;
  for (const nlohmann::json& bar : report["bars"]) ++bars[bar["id"]];
  EXPECT_EQ(bars, (std::map<std::string, int>{
                      {"C1", 3}, {"C2", 2}, {"C3", 2}, {"C4", 1}, {"C5", 1}, {"C8", 2}}));
  ASSERT_EQ(report["tables"].size(), 2U) << "either link";
  for (const nlohmann::json& table : report["tables"]) {
    std::vector<std::string> modes;
    for (const nlohmann::json& row : table["rows"]) modes.push_back(row[0]);
    EXPECT_THAT(
        modes, ::testing::ElementsAre("cached", "planned", "pipelined", "cpu_assist", "on_demand"));
  }
  // Exactness does not depend on speed, so it is judged.
  for (const nlohmann::json& bar : report["bars"]) {
    if (bar["id"] == "C8") {
      EXPECT_EQ(bar["ok"], true) << bar.dump();
    }
  }
  std::ifstream page_file(base + ".html");
  const std::string page((std::istreambuf_iterator<char>(page_file)), {});
  for (const char* plot : {"TTFT, native link", "TPOT, 1 GB/s link", "TTFT by arrival"}) {
    EXPECT_THAT(page, HasSubstr(plot));
  }
  for (const char* end : {".json", ".html"}) std::filesystem::remove(base + end);
}

// Host devices stand in for GPUs: everything runs, and only what does not depend on speed is
// judged.
TEST(BenchEngine, OfSeveralDevicesRunsEveryBarAndJudgesWhatTheyAnswer) {
  const testing::TempDir folder;
  const std::string json = (folder.path() / "shards.json").string();
  const Finished bench = run_tandem({"bench",     "engine",   "--device",
                                     "host",      "--no-pin", "--threads",
                                     "2",         "--model",  "data/tiny-llama",
                                     "--dtype",   "f32",      "--tensor-parallel",
                                     "2",         "--rounds", "1",
                                     "--context", "16",       "--json",
                                     json,        "--check"});
  ASSERT_EQ(bench.status, 0) << bench.error;
  std::ifstream file(json);
  const nlohmann::json report = nlohmann::json::parse(file);
  std::map<std::string, int> bars;
  for (const nlohmann::json& bar : report["bars"]) {
    const std::string id = bar["id"];
    ++bars[id];
    const bool exactness = id == "T7" || bar["what"].get<std::string>().starts_with("C8");
    EXPECT_EQ(bar["judged"], exactness) << bar.dump();
    EXPECT_TRUE(bar["ok"].get<bool>() || !exactness) << bar.dump();
  }
  EXPECT_EQ(bars,
            (std::map<std::string, int>{
                {"T1", 2}, {"T2", 3}, {"T3", 2}, {"T4", 6}, {"T5", 8}, {"T6", 1}, {"T7", 2}}));
  EXPECT_THAT(bench.output, HasSubstr("judged on GPUs alone"));
  EXPECT_THAT(bench.output, HasSubstr("96 tokens, 0 others, 0 near-ties"));
}

// Simulated time and counts are the same on every machine, so their directions are judged.
TEST(BenchPapers, QuicklyRunsEveryExperimentAndGivesAFigureOrAReasonForEach) {
  const testing::TempDir folder;
  const std::string json = (folder.path() / "papers.json").string();
  const std::string html = (folder.path() / "papers.html").string();
  const Finished bench = run_tandem({"bench", "papers", "--quick", "--device", "host", "--no-pin",
                                     "--json", json, "--html", html});
  ASSERT_EQ(bench.status, 0) << bench.error;
  std::ifstream file(json);
  const nlohmann::json report = nlohmann::json::parse(file);
  std::map<std::string, std::string> verdicts;
  for (const nlohmann::json& row : report["experiments"]) {
    const std::string id = row["id"];
    EXPECT_TRUE(verdicts.emplace(id, row["verdict"]).second) << id << " is there twice";
    EXPECT_NE(row["here"].get<std::string>() + row["why"].get<std::string>(), "") << id;
    for (const char* text : {"figure", "claim", "setting", "theirs", "how", "command"}) {
      EXPECT_NE(row[text], "") << id << ": " << text;
    }
    EXPECT_THAT(bench.output, HasSubstr(id + ": "));
    EXPECT_TRUE(row["ground"] == "device" || !row["series"].empty()) << id;
  }
  std::map<std::string, std::string> others;
  std::erase_if(verdicts, [](const auto& one) { return one.second == "shown"; });
  for (const auto& [id, verdict] : verdicts) {
    if (verdict != "measured") others.emplace(id, verdict);
  }
  EXPECT_EQ(others, (std::map<std::string, std::string>{{"caraserve-14", "not shown"},
                                                        {"punica-12", "not run"},
                                                        {"punica-5", "not shown"}}))
      << bench.output;
  std::ifstream page_file(html);
  const std::string page((std::istreambuf_iterator<char>(page_file)), {});
  EXPECT_THAT(page, HasSubstr("S-LoRA, figure 10"));
  EXPECT_THAT(page, HasSubstr("engines in use"));
}

TEST(BenchPapers, RunsWhatIsNamedAndRefusesWhatItDoesNotKnow) {
  const Finished one = run_tandem({"bench", "papers", "--only", "caraserve-5", "--check"});
  EXPECT_EQ(one.status, 0) << one.error;
  EXPECT_THAT(one.output, HasSubstr("1 experiments: 1 claims shown"));
  EXPECT_EQ(run_tandem({"bench", "papers", "--only", "punica-5", "--check"}).status, 1)
      << "a claim that is not shown fails with --check";
  const Finished unknown = run_tandem({"bench", "papers", "--only", "punica-99"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.error, HasSubstr("only: 'punica-99' is none of punica-1, punica-5"));
}

TEST(BenchEngine, OnTheHostRefusesBarsThatItLacksBeforeItMakesAnything) {
  const Finished bench =
      run_tandem({"bench", "engine", "--device", "host", "--no-pin", "--only", "H,Z9"});
  EXPECT_EQ(bench.status, 2);
  EXPECT_EQ(bench.error, "tandem bench engine: only: 'Z9' is none of H, S1, L1\n");
}

TEST(BenchEngine, OfSeveralDevicesRefusesWhatTheyCannotShare) {
  const auto refuses = [](const char* devices, const char* threads, const char* only,
                          const char* why) {
    const Finished bench =
        run_tandem({"bench", "engine", "--device", "host", "--no-pin", "--model", "data/tiny-llama",
                    "--tensor-parallel", devices, "--threads", threads, "--only", only});
    EXPECT_NE(bench.status, 0) << why;
    EXPECT_THAT(bench.error, HasSubstr(why));
  };
  refuses("2", "2", "G1", "'G1' is none of T1, T2");
  refuses("2", "1", "T3", "2 devices need a thread each");
}

TEST(BenchEngine, OfDevicesOverWhichHeadsDoNotDivideAnswersAsOneDevice) {
  const Finished bench = run_tandem({"bench",     "engine",   "--device",
                                     "host",      "--no-pin", "--threads",
                                     "3",         "--model",  "data/tiny-llama",
                                     "--dtype",   "f32",      "--tensor-parallel",
                                     "3",         "--rounds", "1",
                                     "--context", "16",       "--only",
                                     "T1,T6,T7",  "--check"});
  EXPECT_EQ(bench.status, 0) << bench.error;
  EXPECT_THAT(bench.output, HasSubstr("96 tokens, 0 others, 0 near-ties"));
}

TEST(BenchColdStart, SaysHowFarPlansAreOffWhoseFiguresWereWrong) {
  const testing::TempDir folder;
  const auto run = [&](const std::string& workers) {
    const std::string json = (folder.path() / ("healing" + workers + ".json")).string();
    const Finished bench = run_tandem({"bench", "coldstart", "--device", "host", "--no-pin",
                                       "--model", "data/tiny-llama", "--rate", "200", "--lengths",
                                       "uniform[2,6]", "--cpu-workers", workers, "--link-gbps",
                                       "0.02", "--only", "N2", "--json", json});
    EXPECT_EQ(bench.status, 0) << bench.error;
    std::ifstream file(json);
    return nlohmann::json::parse(file);
  };
  const nlohmann::json report = run("1");
  ASSERT_EQ(report["tables"].size(), 1U) << report;
  const nlohmann::json& rows = report["tables"][0]["rows"];
  ASSERT_EQ(rows.size(), 8U) << "four stages each";
  EXPECT_EQ(rows[3][0], "3 times too long");
  EXPECT_EQ(rows[7][0], "3 times too short");
  for (const std::size_t last : {3, 7}) EXPECT_EQ(rows[last][1], 120);
  // The number of steps with workers depends on the machine's timing.
  if (!report["bars"].empty()) {
    EXPECT_EQ(report["bars"][0]["id"], "N2");
    EXPECT_EQ(report["bars"][0]["value"],
              std::max(rows[3][5].get<double>(), rows[7][5].get<double>()));
  }
  EXPECT_TRUE(run("0")["tables"].empty()) << "without workers there is nothing to see";
}

TEST(BenchColdStart, RefusesBarsModesAndLengthsThatItDoesNotKnow) {
  const auto refuses = [](const std::string& flag, const std::string& value) {
    const Finished bench = run_tandem({"bench", "coldstart", "--device", "host", "--no-pin",
                                       "--model", "data/demo-llama", flag, value});
    EXPECT_NE(bench.status, 0) << flag;
    EXPECT_THAT(bench.error, HasSubstr("'" + value + "'"));
  };
  refuses("--only", "C9");
  refuses("--modes", "warm");
  refuses("--lengths", "short");
}

}  // namespace
}  // namespace tandem
