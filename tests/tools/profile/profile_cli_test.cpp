// Runs tandem profile as a command: a full measurement with a small model on the host device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/tools/process.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

void write_json(const std::filesystem::path& path, const nlohmann::json& json) {
  std::ofstream(path) << json;
}

TEST(ProfileCli, ExplainsItself) {
  const Finished help = run_tandem({"profile", "--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.output, StartsWith("Usage: tandem profile"));
  for (const char* flag : {"--out FILE", "--explain WORDS", "--what-if WORDS", "--diff OLD",
                           "--map", "--from FILE", "--workers N"}) {
    EXPECT_THAT(help.output, HasSubstr(flag));
  }
}

TEST(ProfileCli, AnswersFromBuiltInFiguresAndSaysSo) {
  const testing::TempDir home;
  ProcessOptions nothing;
  nothing.environment["XDG_CONFIG_HOME"] = home.path().string();
  const Finished plan = run_tandem(
      {"profile", "--explain", "tokens=64", "rank=64", "cold=3", "--log-level", "error"}, nothing);
  EXPECT_EQ(plan.status, 0) << plan.error;
  EXPECT_THAT(plan.output, HasSubstr("no profile yet: from built-in figures"));
  EXPECT_THAT(plan.output, HasSubstr("3 cold adapters of rank 64 on q, k, v, 64 tokens each"));
  EXPECT_THAT(plan.output, HasSubstr("\n   31  "));
  const Finished other = run_tandem({"profile", "--what-if", "cores=8", "link=10"}, nothing);
  EXPECT_EQ(other.status, 0) << other.error;
  EXPECT_THAT(other.output, HasSubstr("if: 8 CPU workers (measured with 12), link 10.0 GB/s"));
}

TEST(ProfileCli, NamesMistakes) {
  const Finished word = run_tandem({"profile", "--explain", "token=64"});
  EXPECT_EQ(word.status, 2);
  EXPECT_THAT(word.error, HasSubstr("explain: 'token=64' is unknown; give tokens=N"));
  const Finished value = run_tandem({"profile", "--what-if", "cores=many"});
  EXPECT_EQ(value.status, 2);
  EXPECT_THAT(value.error, HasSubstr("cores=many"));
  const Finished out = run_tandem({"profile", "--map", "--out", "p.json"});
  EXPECT_EQ(out.status, 2);
  EXPECT_THAT(out.error, HasSubstr("measure nothing"));
  EXPECT_THAT(out.error, HasSubstr("--from FILE"));
  const Finished file = run_tandem({"profile", "--map", "--from", "no/such.json"});
  EXPECT_EQ(file.status, 1);
  EXPECT_THAT(file.error, HasSubstr("no/such.json"));
  const testing::TempDir dir;
  const std::string bad = dir.write("bad.json", R"({"tandem_profile": 99})").string();
  EXPECT_THAT(run_tandem({"profile", "--map", "--from", bad}).error, HasSubstr("version 99"));
  const Finished model = run_tandem({"profile", "--model", "no/such", "--out", bad});
  EXPECT_EQ(model.status, 2);
  EXPECT_THAT(model.error, HasSubstr("no/such"));
  const Finished uneven =
      run_tandem({"profile", "--model", "data/families/gemma4_k", "--out", bad});
  EXPECT_EQ(uneven.status, 2);
  EXPECT_THAT(uneven.error, HasSubstr("its layers have several sizes"));
}

TEST(ProfileCli, MeasuresAModelWritesTheProfileAndAnswersFromIt) {
  const testing::TempDir dir;
  const std::string path = (dir.path() / "new" / "profile.json").string();
  const Finished made =
      run_tandem({"profile", "--model", "data/tiny-llama", "--device", "host", "--threads", "2",
                  "--no-pin", "--quick", "--workers", "1", "--out", path});
  ASSERT_EQ(made.status, 0) << made.error;
  EXPECT_THAT(made.error, HasSubstr("measuring the link (1 of "));
  EXPECT_THAT(made.output, HasSubstr("linear models"));
  EXPECT_THAT(made.output, HasSubstr("tandem serve --profile " + path));
  const nlohmann::json profile = read_json(path);
  EXPECT_EQ(profile["model"]["name"], "tiny-llama");
  EXPECT_EQ(profile["machine"]["device"], "host");
  std::vector<std::string> tables = {"link", "prefill", "decode", "gemm", "lora", "trip"};
  if (profile["workers"] > 0) tables.insert(tables.end(), {"memory", "worker", "first_token"});
  for (const std::string& table : tables) {
    bool found = false;
    for (const auto& one : profile["tables"]) found = found || one["name"] == table;
    EXPECT_TRUE(found) << table;
  }
  std::ifstream page((dir.path() / "new" / "profile.html").string());
  const std::string html{std::istreambuf_iterator<char>(page), {}};
  EXPECT_THAT(html, HasSubstr("<svg"));
  EXPECT_THAT(html, HasSubstr("What cores buy"));
  if (profile["workers"] > 0) {
    EXPECT_THAT(made.output, HasSubstr("first tokens of one cold adapter, as measured"));
    EXPECT_THAT(html, HasSubstr("<title>measured</title>"));
  }

  const Finished again = run_tandem({"profile", "--from", path, "--map"});
  EXPECT_EQ(again.status, 0) << again.error;
  EXPECT_THAT(again.output, HasSubstr("tiny-llama"));
  const std::string map_page = (dir.path() / "map.html").string();
  EXPECT_EQ(run_tandem({"profile", "--from", path, "--map", "--html", map_page}).status, 0);
  std::ifstream map(map_page);
  EXPECT_THAT((std::string{std::istreambuf_iterator<char>(map), {}}), HasSubstr("<svg"));
  EXPECT_EQ(run_tandem({"profile", "--from", path, "--diff", path}).status, 0);
  ASSERT_FALSE(profile["figures"].empty());
  nlohmann::json changed = profile;
  for (auto& figure : changed["figures"]) {
    if (figure["name"] != "layer_s") continue;
    figure["value"] = figure["value"].get<double>() * 1e4;  // beyond any spread
    figure["spread"] = 0;
  }
  const std::string other = (dir.path() / "other.json").string();
  write_json(other, changed);
  const Finished diff = run_tandem({"profile", "--from", path, "--diff", other});
  EXPECT_EQ(diff.status, 1);
  EXPECT_THAT(diff.output, HasSubstr("-100.0%"));
}

// About half of an adapter travels to each of two devices; the profile is valid only for two
// devices that share the model.
TEST(ProfileCli, MeasuresDevicesThatShareAModel) {
  const testing::TempDir dir;
  const std::string path = (dir.path() / "two.json").string();
  const std::vector<std::string> device = {"--model", "data/tiny-llama",   "--device",
                                           "host",    "--no-pin",          "--threads",
                                           "2",       "--tensor-parallel", "2"};
  std::vector<std::string> measure = {"profile", "--quick", "--workers", "0", "--out", path};
  measure.insert(measure.end(), device.begin(), device.end());
  const Finished made = run_tandem(measure);
  ASSERT_EQ(made.status, 0) << made.error;
  EXPECT_THAT(made.output, HasSubstr("on 2 x host"));
  EXPECT_THAT(made.error, HasSubstr("no first tokens were measured: there are no CPU workers"));
  EXPECT_EQ(read_json(path)["model"]["devices"], 2);
  const Finished plan = run_tandem({"profile", "--from", path, "--explain", "tokens=8"});
  EXPECT_EQ(plan.status, 0) << plan.error;
  EXPECT_THAT(plan.output, HasSubstr("2 devices, links of"));

  std::vector<std::string> generate = {"generate",     "--prompt",  "a",
                                       "--max-tokens", "1",         "--load-format",
                                       "dummy",        "--profile", path};
  std::vector<std::string> alone = generate;
  generate.insert(generate.end(), device.begin(), device.end());
  alone.insert(alone.end(), device.begin(), device.end() - 2);
  EXPECT_EQ(run_tandem(generate).status, 0);
  const Finished refused = run_tandem(alone);
  EXPECT_NE(refused.status, 0);
  EXPECT_THAT(refused.error, HasSubstr("the number of devices that share it is 1"));
}

TEST(ProfileCli, MeasuresDevicesOverWhichHeadsDoNotDivide) {
  const testing::TempDir dir;
  const std::string path = (dir.path() / "three.json").string();
  const std::vector<std::string> device = {"--model", "data/tiny-llama",   "--device",
                                           "host",    "--no-pin",          "--threads",
                                           "3",       "--tensor-parallel", "3"};
  std::vector<std::string> measure = {"profile", "--quick", "--workers", "0", "--out", path};
  measure.insert(measure.end(), device.begin(), device.end());
  const Finished made = run_tandem(measure);
  ASSERT_EQ(made.status, 0) << made.error;
  std::vector<std::string> generate = {"generate",     "--prompt",  "a",
                                       "--max-tokens", "1",         "--load-format",
                                       "dummy",        "--profile", path};
  generate.insert(generate.end(), device.begin(), device.end());
  const Finished used = run_tandem(generate);
  EXPECT_EQ(used.status, 0) << used.error;
}

}  // namespace
}  // namespace tandem
