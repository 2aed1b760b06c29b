#include "scheduler/router/engine_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/router/client_call.h"

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
                  "active": 1}],
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
  EXPECT_EQ(report.removed, std::vector<std::string>{"b"});
  EXPECT_TRUE(report.view.prefix_cache);  // unless it says otherwise
  json without = honest();
  without["prefix_cache"] = false;
  EXPECT_FALSE(read_report(without.dump()).value().view.prefix_cache);
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

HttpRequest request_of(const std::string& path, const std::string& body) {
  HttpRequest request;
  request.method = "POST";
  request.path = path;
  request.body = body;
  return request;
}

TEST(ClientCall, SplicesTheClientsBytesIntoTheWrapperAsTheyCame) {
  ClientCall call;
  const std::string body = "{ \"model\" :\"a\", \"prompt\":[\"x\",\"y\"],\"n\":2, \"z\": 1.50 }";
  ASSERT_FALSE(read_client_call(request_of("/v1/completions", body), call));
  EXPECT_EQ(call.model, "a");
  EXPECT_EQ(call.choices, 4U);
  EXPECT_FALSE(call.stream);
  const std::string wrapped = relay_body(call, "[1]");
  EXPECT_TRUE(wrapped.ends_with(",\"sent\":[1],\"request\":" + body + "}"));
  const json parsed = json::parse(wrapped);
  EXPECT_EQ(parsed["path"], "/v1/completions");
  EXPECT_EQ(parsed["seed"].get<std::uint64_t>(), call.seed);
  EXPECT_TRUE(parsed["id"].get<std::string>().starts_with("cmpl-"));
  EXPECT_FALSE(json::parse(relay_body(call, "")).contains("sent"));
}

TEST(ClientCall, ReadsWhatRoutingNeeds) {
  ClientCall call;
  HttpRequest request = request_of("/v1/chat/completions",
                                   R"({"messages":[],"stream":true,"n":3,"max_tokens":7,
                                       "stream_options":{"include_usage":true}})");
  request.headers["x-slo-ttft-ms"] = "250";
  request.headers["x-slo-tpot-ms"] = "-1";
  ASSERT_FALSE(read_client_call(request, call));
  EXPECT_TRUE(call.stream);
  EXPECT_TRUE(call.include_usage);
  EXPECT_EQ(call.choices, 3U);
  EXPECT_EQ(call.max_tokens, 7);
  EXPECT_EQ(call.slo_ttft_s, 0.25);
  EXPECT_EQ(call.slo_token_s, 0);
  for (const char* prompt : {"[1,2,3]", "\"x\"", "[]", "7"}) {
    ClientCall one;
    const std::string body = std::string("{\"prompt\":") + prompt + ",\"n\":-4}";
    ASSERT_FALSE(read_client_call(request_of("/v1/completions", body), one));
    EXPECT_EQ(one.choices, 1U) << prompt;
  }
}

TEST(ClientCall, KnowsWhatOfAPromptComesFirst) {
  const auto shared = [](const char* path, const json& a, const json& b) {
    ClientCall one;
    ClientCall other;
    EXPECT_FALSE(read_client_call(request_of(path, a.dump()), one));
    EXPECT_FALSE(read_client_call(request_of(path, b.dump()), other));
    std::size_t count = 0;
    while (count < std::min(one.prompt.size(), other.prompt.size()) &&
           one.prompt[count] == other.prompt[count]) {
      ++count;
    }
    return count;
  };
  const std::string text(1000, 'x');
  const auto says = [](const std::string& role, const std::string& content) {
    return json{{"role", role}, {"content", content}};
  };
  constexpr const char* kChat = "/v1/chat/completions";
  const json system = says("system", text);
  const json talk = {{"messages", {system, says("user", "a")}}, {"seed", 1}};
  const json longer = {{"messages", {system, says("user", "a"), says("assistant", text)}},
                       {"temperature", 0}};
  EXPECT_GE(shared(kChat, talk, longer), 7U);
  // The same words of somebody else, of another model, or behind tools.
  const json other = {{"messages", {says("user", text), says("user", "a")}}};
  EXPECT_EQ(shared(kChat, talk, other), 0U);
  json changed = talk;
  changed["model"] = "law";
  EXPECT_EQ(shared(kChat, talk, changed), 0U);
  changed = talk;
  changed["tools"] = {{{"type", "function"}}};
  EXPECT_EQ(shared(kChat, talk, changed), 0U);
  constexpr const char* kCompletions = "/v1/completions";
  EXPECT_GE(shared(kCompletions, {{"prompt", text}}, {{"prompt", text + "y"}}), 7U);
  EXPECT_GE(shared(kCompletions, {{"prompt", text}}, {{"prompt", {text, "other"}}}), 7U);
  const std::vector<int> ids(300, 1234);
  EXPECT_GE(shared(kCompletions, {{"prompt", ids}}, {{"prompt", {ids, ids}}}), 7U);
  for (const char* body : {R"({"messages":7})", R"({"messages":[7,[]],"tools":"x"})", "{}"}) {
    ClientCall odd;
    EXPECT_FALSE(read_client_call(request_of(kChat, body), odd)) << body;
    EXPECT_TRUE(odd.prompt.empty());
  }
}

}  // namespace
}  // namespace tandem
