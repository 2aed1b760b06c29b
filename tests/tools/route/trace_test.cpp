// Follows a request through a real router and a real engine: one trace of nested spans, in a
// collector and in the engine's file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/log/log.h"
#include "tests/base/http/test_client.h"
#include "tests/base/trace/export/stub_collector.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/crowd.h"
#include "tests/tools/process.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr const char* kTrace = "0af7651916cd43dd8448eb211c80319c";
constexpr const char* kCaller = "b7ad6b7169203331";

json find(const std::vector<json>& spans, const std::string& service, const std::string& name) {
  const auto found = std::ranges::find_if(
      spans, [&](const json& span) { return span["service"] == service && span["name"] == name; });
  return found == spans.end() ? json() : *found;
}

std::string text_of(const std::filesystem::path& file) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// Returns spans that have a start and an end.
std::vector<json> spans_named(const json& events, const std::string& name) {
  std::vector<json> found;
  for (const json& event : events) {
    if (event["ph"] != "X" || event["name"] != name) continue;
    EXPECT_GE(event["dur"].get<double>(), 0);
    found.push_back(event);
  }
  return found;
}

std::string lane_of(const json& events, const json& span) {
  const auto found = std::ranges::find_if(events, [&](const json& event) {
    return event["name"] == "thread_name" && event["tid"] == span["tid"];
  });
  return found == events.end() ? "none" : (*found)["args"]["name"].get<std::string>();
}

// The steps of a cold adapter, its load and the work of CPU workers each have a lane.
void expect_a_cold_start(const json& events) {
  const std::vector<json> loads = spans_named(events, "load");
  const std::vector<json> layers = spans_named(events, "layer");
  const std::vector<json> worked = spans_named(events, "layer by CPU workers");
  ASSERT_EQ(loads.size(), 1U);
  EXPECT_EQ(loads[0]["args"]["adapter"], "python");
  EXPECT_THAT(lane_of(events, loads[0]), ::testing::StartsWith("device: loads of adapters"));
  ASSERT_EQ(layers.size(), 8U);
  for (const json& layer : layers) {
    EXPECT_EQ(layer["tid"], loads[0]["tid"]);
    EXPECT_GE(layer["ts"], loads[0]["ts"]);
  }
  ASSERT_GE(worked.size(), 1U);
  EXPECT_THAT(lane_of(events, worked[0]), ::testing::StartsWith("CPU workers"));
  EXPECT_EQ(worked[0]["args"]["layer"], 0);
  EXPECT_GE(worked[0]["args"]["rows"], 1);
  EXPECT_LT(worked[0]["ts"], loads[0]["ts"].get<double>() + loads[0]["dur"].get<double>());
}

TEST(Trace, FollowsARequestThroughRouterAndEngine) {
  log::set_level(log::Level::off);
  const testing::TempDir dir;
  const auto file = dir.path() / "trace.json";
  StubCollector collector;
  // A layer takes 120 ms on the link, so a worker has to help in this cold start; it may be late.
  ReadyServer engine({"serve",
                      "--model",
                      "data/demo-llama",
                      "--adapters",
                      "data/demo-llama/adapters",
                      "--device",
                      "host",
                      "--port",
                      "0",
                      "--trace",
                      file.string(),
                      "--otlp-endpoint",
                      collector.url(),
                      "--cpu-workers",
                      "1",
                      "--adapter-mode",
                      "cpu_assist",
                      "--link-gbps",
                      "0.0005",
                      "--handoff-deadline-ms",
                      "30000",
                      "--no-pin"});
  ASSERT_NE(engine.port, 0) << engine.process.error();
  ASSERT_TRUE(eventually([&] {
    const std::string metrics = get(engine.port, "/metrics").body;
    return metrics.find("tandem_cpu_workers{model_name=\"demo-llama\"} 1") != std::string::npos;
  })) << engine.process.error();
  Process route({"route", "--port", "0", "--engine",
                 "http://127.0.0.1:" + std::to_string(engine.port), "--otlp-endpoint",
                 collector.url()});
  ASSERT_TRUE(route.wait_for_error("(id ")) << route.error();
  const int port = listening_port(route);

  const auto answer = post(
      port, "/v1/completions",
      {{"model", "python"}, {"prompt", "a secret prompt"}, {"max_tokens", 8}, {"stream", true}},
      "X-Request-Id: followed\r\ntraceparent: 00-" + std::string(kTrace) + "-" + kCaller +
          "-01\r\n");
  EXPECT_EQ(answer.status, 200);
  ASSERT_TRUE(answer.headers.contains("traceparent"));
  EXPECT_THAT(answer.headers.at("traceparent"), ::testing::StartsWith("00-" + std::string(kTrace)));

  const auto spans = collector.spans([](const auto& all) {
    return !find(all, "tandem route", "/v1/completions").is_null() &&
           !find(all, "tandem serve", "/v1/completions").is_null();
  });
  const json at_router = find(spans, "tandem route", "/v1/completions");
  const json wait = find(spans, "tandem route", "wait for an engine");
  const json ask = find(spans, "tandem route", "ask an engine");
  const json at_engine = find(spans, "tandem serve", "/v1/completions");
  ASSERT_FALSE(at_router.is_null() || wait.is_null() || ask.is_null() || at_engine.is_null());
  EXPECT_EQ(at_router["parentSpanId"], kCaller);
  EXPECT_EQ(wait["parentSpanId"], at_router["spanId"]);
  EXPECT_EQ(ask["parentSpanId"], at_router["spanId"]);
  EXPECT_EQ(at_engine["parentSpanId"], ask["spanId"]);
  for (const char* part : {"queue", "prefill", "decode", "CPU workers", "stream"}) {
    const json below = find(spans, "tandem serve", part);
    ASSERT_FALSE(below.is_null()) << part;
    EXPECT_EQ(below["parentSpanId"], at_engine["spanId"]) << part;
    EXPECT_GE(below["startTimeUnixNano"], at_engine["startTimeUnixNano"]) << part;
    EXPECT_LE(below["endTimeUnixNano"], at_engine["endTimeUnixNano"]) << part;
  }
  for (const json& span : spans) EXPECT_EQ(span["traceId"], kTrace);
  EXPECT_EQ(json(spans).dump().find("secret"), std::string::npos);

  // Both logs contain the trace's id.
  ASSERT_TRUE(engine.process.wait_for_error(std::string("trace_id=") + kTrace));
  ASSERT_TRUE(route.wait_for_error(std::string("trace_id=") + kTrace));
  EXPECT_THAT(get(engine.port, "/metrics").body,
              ::testing::HasSubstr("tandem_trace_spans_dropped_total{where=\"export\"} 0"));

  // Both obey a caller's decision not to sample.
  const auto unsampled =
      post(port, "/v1/completions", {{"prompt", "x"}, {"max_tokens", 2}},
           "traceparent: 00-11111111111111111111111111111111-" + std::string(kCaller) + "-00\r\n");
  EXPECT_EQ(unsampled.status, 200);

  // Written after the load has ended, with its layers.
  EXPECT_TRUE(eventually([&] {
    const std::string text = text_of(file);
    int layers = 0;
    constexpr std::string_view kLayer = "\"name\":\"layer\"";
    for (auto at = text.find(kLayer); at != std::string::npos; at = text.find(kLayer, at + 1)) {
      ++layers;
    }
    return layers == 8;
  }));
  engine.process.send_signal(SIGKILL);
  EXPECT_EQ(engine.process.wait(), 128 + SIGKILL);
  const std::string text = text_of(file);
  const json events = json::parse(text + "]", nullptr, false);
  ASSERT_TRUE(events.is_array());
  std::map<std::string, int> names;
  for (const json& event : events) ++names[event["name"].get<std::string>()];
  EXPECT_EQ(names["/v1/completions"], 2);  // a start and an end
  EXPECT_GE(names["step"] + names["recorded step"], 8);
  EXPECT_EQ(text.find("1111111111111111"), std::string::npos);
  expect_a_cold_start(events);
}

}  // namespace
}  // namespace tandem
