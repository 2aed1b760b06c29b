// A request followed through a real router and a real engine: one trace, spans below one another,
// in a collector and in the engine's file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "base/log.h"
#include "tests/base/http/test_client.h"
#include "tests/base/trace/export/stub_collector.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/process.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr const char* kTrace = "0af7651916cd43dd8448eb211c80319c";
constexpr const char* kCaller = "b7ad6b7169203331";

int port_of(const std::string& log) {
  const std::string marker = "listening on http://127.0.0.1:";
  const std::size_t at = log.find(marker);
  return at == std::string::npos ? 0 : std::stoi(log.substr(at + marker.size()));
}

json find(const std::vector<json>& spans, const std::string& service, const std::string& name) {
  const auto found = std::ranges::find_if(
      spans, [&](const json& span) { return span["service"] == service && span["name"] == name; });
  return found == spans.end() ? json() : *found;
}

TEST(Trace, FollowsARequestThroughRouterAndEngine) {
  log::set_level(log::Level::off);
  const testing::TempDir dir;
  const auto file = dir.path() / "trace.json";
  StubCollector collector;
  ReadyServer engine({"serve", "--model", "data/demo-llama", "--adapters",
                      "data/demo-llama/adapters", "--device", "host", "--port", "0", "--trace",
                      file.string(), "--otlp-endpoint", collector.url()});
  ASSERT_NE(engine.port, 0) << engine.process.error();
  Process route({"route", "--port", "0", "--engine",
                 "http://127.0.0.1:" + std::to_string(engine.port), "--otlp-endpoint",
                 collector.url()});
  ASSERT_TRUE(route.wait_for_error("(id ")) << route.error();
  const int port = port_of(route.error());

  const auto answer = post(port, "/v1/completions",
                           {{"prompt", "a secret prompt"}, {"max_tokens", 8}, {"stream", true}},
                           "X-Request-Id: followed\r\ntraceparent: 00-" + std::string(kTrace) +
                               "-" + kCaller + "-01\r\n");
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
  for (const char* part : {"queue", "prefill", "decode", "stream"}) {
    const json below = find(spans, "tandem serve", part);
    ASSERT_FALSE(below.is_null()) << part;
    EXPECT_EQ(below["parentSpanId"], at_engine["spanId"]) << part;
    EXPECT_GE(below["startTimeUnixNano"], at_engine["startTimeUnixNano"]) << part;
    EXPECT_LE(below["endTimeUnixNano"], at_engine["endTimeUnixNano"]) << part;
  }
  for (const json& span : spans) EXPECT_EQ(span["traceId"], kTrace);
  EXPECT_EQ(json(spans).dump().find("secret"), std::string::npos);

  // Both logs know it by its trace.
  ASSERT_TRUE(engine.process.wait_for_error(std::string("trace_id=") + kTrace));
  ASSERT_TRUE(route.wait_for_error(std::string("trace_id=") + kTrace));
  EXPECT_THAT(get(engine.port, "/metrics").body,
              ::testing::HasSubstr("tandem_trace_spans_dropped_total{where=\"export\"} 0"));

  // A caller's "no" is heeded by both.
  const auto unsampled =
      post(port, "/v1/completions", {{"prompt", "x"}, {"max_tokens", 2}},
           "traceparent: 00-11111111111111111111111111111111-" + std::string(kCaller) + "-00\r\n");
  EXPECT_EQ(unsampled.status, 200);

  engine.process.send_signal(SIGKILL);
  EXPECT_EQ(engine.process.wait(), 128 + SIGKILL);
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  const json events = json::parse(text.str() + "]", nullptr, false);
  ASSERT_TRUE(events.is_array());
  std::map<std::string, int> names;
  for (const json& event : events) ++names[event["name"].get<std::string>()];
  EXPECT_EQ(names["/v1/completions"], 2);  // its begin and its end
  EXPECT_GE(names["step"] + names["recorded step"], 8);
  EXPECT_EQ(text.str().find("1111111111111111"), std::string::npos);
}

}  // namespace
}  // namespace tandem
