// Runs `tandem bench serve` as a command.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "base/file/file.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/process.h"
#include "tools/bench/serve/stub_server.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

nlohmann::json read_json(const std::string& path) {
  const auto text = read_text_file(path, 10'000'000);
  EXPECT_TRUE(text.ok()) << text.status().message();
  return text.ok() ? nlohmann::json::parse(*text) : nlohmann::json();
}

TEST(BenchServe, MeasuresItsStubAndWritesJsonAndPage) {
  const testing::TempDir dir;
  const std::string file = dir.path() / "a.json";
  const std::string page_file = dir.path() / "a.html";
  const Finished ran = run_tandem({"bench",
                                   "serve",
                                   "--stub",
                                   "--stub-ttft-ms",
                                   "30",
                                   "--stub-tpot-ms",
                                   "5",
                                   "--num-prompts",
                                   "40",
                                   "--request-rate",
                                   "100",
                                   "--output-len",
                                   "4",
                                   "--input-len",
                                   "8",
                                   "--lora-modules",
                                   "a",
                                   "b",
                                   "--goodput",
                                   "ttft:5000",
                                   "e2el:9000",
                                   "--save-detailed",
                                   "--result-filename",
                                   file,
                                   "--html",
                                   page_file});
  ASSERT_EQ(ran.status, 0) << ran.error;
  EXPECT_EQ(ran.error, "");  // the progress line appears only on terminals and in long runs
  const nlohmann::json json = read_json(file);
  EXPECT_EQ(json["completed"], 40);
  EXPECT_EQ(json["ttfts"].size(), 40U);
  EXPECT_GE(json["median_ttft_ms"], 30);
  EXPECT_GT(json["median_tpot_ms"], 2);
  EXPECT_EQ(json["total_output_tokens"], 160);
  EXPECT_GT(json["request_goodput"], 0);
  EXPECT_EQ(json["adapters"].size(), 2U);
  const auto page = read_text_file(page_file, 10'000'000);
  ASSERT_TRUE(page.ok());
  EXPECT_THAT(*page, HasSubstr("<svg"));

  const Finished compared = run_tandem({"bench", "serve", "--compare", file, file});
  EXPECT_EQ(compared.status, 0) << compared.error;
  EXPECT_THAT(compared.output, HasSubstr("median_ttft_ms"));
}

TEST(BenchServe, TakesJsonAsOtherBenchmarksDoAndBackendsAsOthersCallThem) {
  const testing::TempDir dir;
  const std::string file = dir.path() / "a.json";
  const Finished ran = run_tandem({"bench", "serve", "--stub", "--num-prompts", "2", "--output-len",
                                   "2", "--input-len", "8", "--backend", "sglang", "--json", file});
  ASSERT_EQ(ran.status, 0) << ran.error;
  const nlohmann::json json = read_json(file);
  EXPECT_EQ(json["completed"], 2);
  EXPECT_EQ(json["backend"], "sglang");
}

TEST(BenchServe, SweepsAndFindsTheEndOfTheRange) {
  const testing::TempDir dir;
  const std::string file = dir.path() / "sweep.json";
  const Finished ran =
      run_tandem({"bench", "serve", "--stub", "--num-prompts", "10", "--output-len", "2",
                  "--input-len", "8", "--sweep", "request-rate=50..200", "--goodput", "e2el:20000",
                  "--save-result", "--result-filename", file});
  ASSERT_EQ(ran.status, 0) << ran.error;
  const nlohmann::json json = read_json(file);
  EXPECT_EQ(json["points"].size(), 3U);
  EXPECT_EQ(json["knee"], 200);
}

// Sends Ctrl-C after three requests were served; returns the exit status.
int interrupt(Process& process, StubServer& stub) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (stub.served().size() < 3 && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  process.send_signal(SIGINT);
  return process.wait();
}

TEST(BenchServe, CtrlCPrintsWhatHasBeenMeasuredAndEndsWithTheSignalsStatus) {
  StubServer stub([](std::int64_t) { return StubDelays{}; });
  ASSERT_TRUE(stub.start().ok());
  Process process({"bench", "serve", "--port", std::to_string(stub.port()), "--num-prompts",
                   "100000", "--request-rate", "20", "--output-len", "2", "--input-len", "8"});
  EXPECT_EQ(interrupt(process, stub), 130) << process.error();
  EXPECT_THAT(process.output(), HasSubstr("requests not sent any more"));
  EXPECT_THAT(process.output(), HasSubstr("stopped before its end"));
}

TEST(BenchServe, CtrlCInTheFirstRunOfASweepSaysThatThereIsNothing) {
  StubServer stub([](std::int64_t) { return StubDelays{}; });
  ASSERT_TRUE(stub.start().ok());
  Process process({"bench", "serve", "--port", std::to_string(stub.port()), "--num-prompts",
                   "100000", "--sweep", "request-rate=20..40", "--goodput", "e2el:20000",
                   "--output-len", "2", "--input-len", "8"});
  EXPECT_EQ(interrupt(process, stub), 130) << process.error();
  EXPECT_THAT(process.error(), HasSubstr("stopped before the first run was over"));
}

TEST(BenchServe, NeverPrintsTheKey) {
  const testing::TempDir dir;
  const std::string file = dir.path() / "a.json";
  ProcessOptions options;
  options.environment = {{"OPENAI_API_KEY", "hush-hush"}};
  const Finished ran =
      run_tandem({"bench", "serve", "--stub", "--num-prompts", "2", "--output-len", "2", "--header",
                  "X-Other=hush-hush", "--save-detailed", "--result-filename", file},
                 options);
  ASSERT_EQ(ran.status, 0) << ran.error;
  EXPECT_THAT(ran.output + ran.error, Not(HasSubstr("hush-hush")));
  EXPECT_THAT(read_json(file).dump(), Not(HasSubstr("hush-hush")));
}

TEST(BenchServe, SaysWhatIsWrongAndWhatToDo) {
  const auto error = [](std::vector<std::string> args) {
    args.insert(args.begin(), {"bench", "serve"});
    const Finished ran = run_tandem(args);
    EXPECT_NE(ran.status, 0);
    return ran.error;
  };
  EXPECT_THAT(error({"--port", "1"}), HasSubstr("is the server up?"));
  EXPECT_THAT(error({"--base-url", "ftp://h"}), HasSubstr("https://HOST:PORT"));
  EXPECT_THAT(error({"--stub", "--goodput", "ttft"}), HasSubstr("ttft:MS"));
  EXPECT_THAT(error({"--stub", "--dataset-name", "custom"}), HasSubstr("--dataset-path"));
  EXPECT_THAT(error({"--stub", "--lora-modules", "all"}), HasSubstr("lists no adapter"));
  EXPECT_THAT(error({"--stub", "--sweep", "x"}), HasSubstr("request-rate=1..64"));
  EXPECT_THAT(error({"--compare", "x"}), HasSubstr("two files"));
  EXPECT_THAT(error({"--stub", "--request-rate", "0"}), HasSubstr("inf"));
  EXPECT_THAT(error({"--stub", "--json", "a", "--result-filename", "b"}), HasSubstr("give one"));
  for (const char* chat : {"openai-chat", "vllm-chat", "sglang-oai-chat"}) {
    EXPECT_THAT(error({"--stub", "--backend", chat, "--prompts-as", "ids"}),
                HasSubstr("a chat has texts"));
  }
  EXPECT_THAT(error({"--stub", "--tokenizer", "/nowhere"}), HasSubstr("/nowhere"));
}

}  // namespace
}  // namespace tandem
