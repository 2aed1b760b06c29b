#include "scheduler/cluster/report/engine_report.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/cluster/report/report_writer.h"

namespace tandem {
namespace {

using nlohmann::json;

json honest() {
  return json::parse(R"({
    "engine": {"id": "00ff", "version": "1", "model": "m", "max_model_len": 4096},
    "seq": 17, "accepts": true, "draining": false, "mixed_steps": true,
    "running": {"requests": 3, "rank_sum": 96, "rank_max": 64, "context_tokens": 812},
    "waiting": {"requests": 1, "tokens": 40, "rank_tokens": 640, "rank_max": 16, "rank_sum": 16},
    "max_requests": 256, "kv_tokens": 131072, "kv_free_tokens": -12,
    "adapter_free_bytes": 1, "link_queue_bytes": 0, "fetch_queue_bytes": 0, "free_workers": 2,
    "step_ends_in_s": 0.004,
    "costs": {"kernel": "mbgmv", "step_s": 0.01, "rank_s": 0.002},
    "cold": {"link_bytes_per_s": 1e9, "cpu_assist": false},
    "adapters": [{"name": "a", "digest": "", "rank": 16, "bytes": 1048576, "tier": "host",
                  "active": 1, "pinned": true}],
    "removed": ["b"]})");
}

TEST(EngineReport, ReadsWhatAnEngineSays) {
  const EngineReport report = read_report(honest().dump()).value();
  EXPECT_EQ(report.id, "00ff");
  EXPECT_EQ(report.seq, 17U);
  EXPECT_EQ(report.view.running.rank_sum, 96);
  EXPECT_EQ(report.view.waiting_rank_sum, 16);
  EXPECT_EQ(report.view.kv_free_tokens, -12);
  EXPECT_EQ(report.view.costs.kernel, LoraKernel::mbgmv);
  EXPECT_EQ(report.view.costs.rank_s, 0.002);
  EXPECT_FALSE(report.view.cold.cpu_assist);
  EXPECT_EQ(report.view.step_ends_s, 0.004);
  ASSERT_EQ(report.adapters.size(), 1U);
  EXPECT_EQ(report.adapters[0].tier, AdapterTier::host);
  EXPECT_TRUE(report.adapters[0].pinned);
  EXPECT_EQ(report.base, "") << "older engines tell no identity";
  json identified = honest();
  identified["engine"]["base"] = "b1";
  identified["adapters"][0]["digest"] = "d1";
  EXPECT_EQ(read_report(identified.dump())->base, "b1");
  EXPECT_EQ(read_report(identified.dump())->adapters[0].digest, "d1");
  EXPECT_EQ(report.removed, std::vector<std::string>{"b"});
  EXPECT_TRUE(report.view.prefix_cache);  // the default
  json without = honest();
  without["prefix_cache"] = false;
  EXPECT_FALSE(read_report(without.dump()).value().view.prefix_cache);
  json older = honest();
  older["adapters"][0].erase("pinned");
  EXPECT_FALSE(read_report(older.dump()).value().adapters[0].pinned);
  json unknown_end = honest();
  unknown_end["step_ends_in_s"] = nullptr;
  EXPECT_LT(read_report(unknown_end.dump()).value().view.step_ends_s, 0);
}

// Every field in the old format, from before the fields were in one table.
constexpr const char* kHead =
    R"("accepts":false,"adapter_free_bytes":1024,)"
    R"("cold":{"cpu_assist":false,"cpu_rank_token_s":0.5,"cpu_step_s":0.25,)"
    R"("fetch_bytes_per_s":2500.0,"fetch_s":0.125,"link_bytes_per_s":1000.0,"load_s":2.0},)"
    R"("costs":{"context_token_s":0.0625,"kernel":"mbgmv","prefill_rank_token_s":0.5,)"
    R"("prefill_token_s":0.25,"rank_s":0.002,"request_s":0.001,"step_s":0.01},)"
    R"("draining":true,"engine":{"base":"b1","id":"00ff","max_model_len":4096,"model":"m",)"
    R"("version":"1.2"},"fetch_queue_bytes":3,"free_workers":2,"kv_free_tokens":-12,)"
    R"("kv_tokens":131072,"link_queue_bytes":7,"max_requests":256,"mixed_steps":false,)"
    R"("prefix_cache":false,"running":{"context_tokens":812,"rank_max":64,"rank_sum":96,)"
    R"("requests":3},"step_ends_in_s":0.004,"waiting":{"rank_max":16,"rank_sum":16,)"
    R"("rank_tokens":640,"requests":1,"tokens":40})";
constexpr const char* kAdapter =
    R"({"active":1,"bytes":1048576,"digest":"d1","name":"a","pinned":true,"rank":16,)"
    R"("tier":"resident"})";

EngineReport report_before() {
  return read_report(
             fmt::format(R"({{"seq":17,{},"adapters":[{}],"removed":["b"]}})", kHead, kAdapter))
      .value();
}

TEST(EngineReport, IsReadFromAnEngineOfTheVersionBefore) {
  const EngineReport report = report_before();
  EXPECT_EQ(report.version, "1.2");
  EXPECT_EQ(report.max_model_len, 4096);
  EXPECT_TRUE(report.draining);
  EXPECT_FALSE(report.view.accepts);
  EXPECT_FALSE(report.view.mixed_steps);
  EXPECT_EQ(report.view.running.context_tokens, 812);
  EXPECT_EQ(report.view.waiting.rank_tokens, 640);
  EXPECT_EQ(report.view.link_queue_bytes, 7);
  EXPECT_EQ(report.view.costs.context_token_s, 0.0625);
  EXPECT_EQ(report.view.cold.cpu_rank_token_s, 0.5);
  EXPECT_EQ(report.adapters.at(0).tier, AdapterTier::resident);
  EXPECT_EQ(report.adapters.at(0).bytes, 1048576);
}

TEST(EngineReport, IsWrittenForARouterOfTheVersionBefore) {
  const EngineReport report = report_before();
  EXPECT_EQ(report_head(report).dump(), "{" + std::string(kHead) + "}");
  EXPECT_EQ(adapter_json(report.adapters.at(0)).dump(), kAdapter);
  struct Presence {  // the engine's types
    std::shared_ptr<const std::string> name, digest;
    std::int32_t rank;
    std::uint64_t bytes;
    AdapterTier tier;
    std::int32_t active;
    bool pinned;
  };
  const Presence present{std::make_shared<std::string>("a"),
                         std::make_shared<std::string>("d1"),
                         16,
                         1048576,
                         AdapterTier::resident,
                         1,
                         true};
  EXPECT_EQ(adapter_json(present).dump(), kAdapter);
  EngineReport idle = report;
  idle.view.step_ends_s = -1;
  EXPECT_EQ(report_head(idle)["step_ends_in_s"], nullptr);
}

TEST(EngineReport, IsReadWithWhatANewerEngineAdds) {
  json newer = honest();
  newer["heat"] = 3;
  newer["running"]["heat"] = 3;
  newer["adapters"][0]["heat"] = 3;
  newer["costs"]["kernel"] = "other";
  EXPECT_EQ(read_report(newer.dump()).value().view.costs.kernel, LoraKernel::bgmv);
}

TEST(EngineReport, RefusesWhatDoesNotHoldTogether) {
  const std::vector<std::pair<const char*, json>> lies = {
      {"/running/requests", -1},
      {"/running/requests", 2e9},
      {"/running/requests", "3"},
      {"/running/rank_sum", 193},
      {"/running/rank_max", 2049},
      {"/running/context_tokens", 18446744073709551615ULL},
      {"/waiting/rank_tokens", 641},
      {"/waiting/rank_sum", 17},
      {"/max_requests", 0},
      {"/kv_free_tokens", 131073},
      {"/step_ends_in_s", -0.5},
      {"/costs/step_s", -1},
      {"/costs/step_s", 1e300},
      {"/cold/link_bytes_per_s", 0},
      {"/adapters/0/rank", 100000},
      {"/adapters/0/tier", "heaven"},
      {"/adapters/0/pinned", 1},
      {"/adapters/0/name", ""},
      {"/adapters/0/name", "a\nb"},
      {"/adapters/0/name", std::string(1000, 'x')},
      {"/adapters", 3},
      {"/adapters/0", 3},
      {"/removed/0", 3},
      {"/engine/id", nullptr},
      {"/engine", 1},
      {"/accepts", 1},
  };
  for (const auto& [member, value] : lies) {
    json report = honest();
    report[json::json_pointer(member)] = value;
    EXPECT_FALSE(read_report(report.dump())) << member << " = " << value;
  }
  EXPECT_FALSE(read_report("[]"));
  EXPECT_FALSE(read_report("{"));
  EXPECT_FALSE(read_report(std::string(1000, '[')));
}

}  // namespace
}  // namespace tandem
