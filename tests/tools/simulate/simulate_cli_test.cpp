// Runs `tandem simulate` as a command.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/file/file.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/process.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

TEST(Simulate, ComparesAllPoliciesAndWritesJsonAndPage) {
  const testing::TempDir dir;
  const std::string json_file = (dir.path() / "out.json").string();
  const std::string html_file = (dir.path() / "out.html").string();
  const Finished ran = run_tandem({"simulate", "--compare", "all", "--engines", "6", "--adapters",
                                   "4000", "--rps", "34", "--duration-s", "20", "--warmup-s", "5",
                                   "--json", json_file, "--html", html_file});
  ASSERT_EQ(ran.status, 0) << ran.error;
  EXPECT_EQ(ran.error, "");  // the progress line appears only on terminals
  const auto text = read_text_file(json_file, 10'000'000);
  ASSERT_TRUE(text.ok());
  const auto json = nlohmann::json::parse(*text);
  ASSERT_EQ(json["policies"].size(), 9U);
  for (const auto& policy : json["policies"]) {
    EXPECT_GT(policy["requests"], 300);
    EXPECT_GT(policy["slo_attainment"], 0.5);
    for (const char* figure : {"ttft_ms", "tpot_ms", "latency_ms"}) {
      EXPECT_GT(policy[figure]["mean"], 0);
      EXPECT_GE(policy[figure]["p99"], policy[figure]["p50"]);
    }
  }
  const auto page = read_text_file(html_file, 10'000'000);
  ASSERT_TRUE(page.ok());
  EXPECT_THAT(*page, HasSubstr("rank_aware"));
  EXPECT_THAT(ran.output, HasSubstr("tandem  "));
}

TEST(Simulate, TakesAnEngineAtItsWordAndRequestsAsTheyCame) {
  const testing::TempDir dir;
  const std::string stats = (dir.path() / "stats.json").string();
  const std::string requests = (dir.path() / "requests.jsonl").string();
  const std::string json_file = (dir.path() / "out.json").string();
  const std::string zero = R"({"requests":0,"tokens":0,"rank_tokens":0,"rank_sum":0,"rank_max":0,)"
                           R"("context_tokens":0})";
  std::ofstream(stats) << R"({"engine":{"id":"1","model":"m","max_model_len":64},"seq":1,)"
                          R"("accepts":true,"draining":false,"mixed_steps":true,"max_requests":4,)"
                          R"("kv_tokens":4096,"kv_free_tokens":4096,"adapter_free_bytes":1000000,)"
                          R"("link_queue_bytes":0,"fetch_queue_bytes":0,"free_workers":1,)"
                          R"("costs":{"step_s":0.01},"adapters":[{"name":"a","rank":8,)"
                          R"("bytes":8000,"active":0,"tier":"host"}],"running":)"
                       << zero << R"(,"waiting":)" << zero << "}";
  // One request is alone, and two come together; each token takes a step of 10 ms.
  std::ofstream(requests)
      << R"({"arrival_s":1,"adapter":"a","rank":8,"prompt_tokens":5,"answer_tokens":11})" << '\n'
      << R"({"arrival_s":2,"adapter":"a","rank":8,"prompt_tokens":5,"answer_tokens":11})" << '\n'
      << R"({"arrival_s":2,"adapter":"b","rank":8,"prompt_tokens":5,"answer_tokens":11})" << '\n';
  const Finished ran = run_tandem({"simulate", "--stats", stats, "--requests", requests,
                                   "--engines", "2", "--warmup-s", "0", "--compare", "most_idle",
                                   "--cold-start", "cached", "--json", json_file});
  ASSERT_EQ(ran.status, 0) << ran.error;
  const auto text = read_text_file(json_file, 10'000'000);
  ASSERT_TRUE(text.ok());
  const auto policy = nlohmann::json::parse(*text)["policies"][0];
  EXPECT_EQ(policy["requests"], 3);
  EXPECT_NEAR(policy["ttft_ms"]["mean"], 10, 1e-3);
  EXPECT_NEAR(policy["tpot_ms"]["mean"], 10, 1e-3);
  const Finished busy = run_tandem({"simulate", "--stats", requests, "--requests", requests});
  EXPECT_EQ(busy.status, 2);
  EXPECT_THAT(busy.error, HasSubstr("requests.jsonl"));
}

TEST(Simulate, ReadsTheTraceThatItWrites) {
  const testing::TempDir dir;
  const std::string file = (dir.path() / "calls.csv").string();
  const Finished wrote = run_tandem({"simulate", "--write-trace", file, "--adapters", "300",
                                     "--rps", "20", "--duration-s", "120"});
  ASSERT_EQ(wrote.status, 0) << wrote.error;
  EXPECT_THAT(wrote.output, HasSubstr("300 functions, 2 minutes"));
  const Finished ran =
      run_tandem({"simulate", "--arrivals", "trace", "--trace", file, "--compare", "tandem",
                  "--engines", "4", "--rps", "20", "--duration-s", "120"});
  EXPECT_EQ(ran.status, 0) << ran.error;
  std::ofstream(file, std::ios::app) << "a,b,c,http,1,x\n";
  const Finished broken = run_tandem({"simulate", "--arrivals", "trace", "--trace", file});
  EXPECT_EQ(broken.status, 2);
  EXPECT_THAT(broken.error, HasSubstr("line 302, minute 2: 'x' is no number of calls"));
}

TEST(Simulate, SaysWhatIsWrong) {
  const auto error_of = [](const std::vector<std::string>& args) {
    const Finished ran = run_tandem(args);
    EXPECT_NE(ran.status, 0);
    return ran.error;
  };
  EXPECT_THAT(error_of({"simulate", "--compare", "tandem,best"}),
              HasSubstr("policy 'best' is unknown; there are random"));
  EXPECT_THAT(error_of({"simulate", "--ranks", "8,many"}), HasSubstr("'many' is no whole number"));
  EXPECT_THAT(error_of({"simulate", "--engines", "0"}), HasSubstr("engines"));
  EXPECT_THAT(error_of({"simulate", "--arrivals", "trace"}), HasSubstr("--trace FILE"));
  EXPECT_THAT(error_of({"simulate", "--trace", "/nowhere"}), HasSubstr("--arrivals trace"));
}

}  // namespace
}  // namespace tandem
