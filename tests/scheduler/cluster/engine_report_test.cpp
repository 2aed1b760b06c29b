#include "scheduler/cluster/engine_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

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
  EXPECT_TRUE(report.view.prefix_cache);  // unless it says otherwise
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

TEST(EngineReport, RefusesWhatDoesNotHoldTogether) {
  const std::vector<std::pair<const char*, json>> lies = {
      {"/running/requests", -1},
      {"/running/requests", 2e9},
      {"/running/requests", "3"},
      {"/running/rank_sum", 193},
      {"/running/rank_max", 513},
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
