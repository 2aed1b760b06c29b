#include "base/trace/export/otlp_json.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace tandem {
namespace {

using nlohmann::json;

TEST(OtlpJson, HasWhatACollectorReads) {
  const auto caller = read_traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
  const TimePoint at{std::chrono::microseconds(5)};
  Span call = request_span("/v1/completions", caller->child(), at, at + std::chrono::seconds(1));
  call.kind = SpanKind::server;
  call.failed = true;
  call.add("model", "x\n\xff").add("tokens", 3.0).add("seconds", 0.5);
  call.add("bad", std::numeric_limits<double>::quiet_NaN());
  const Span spans[] = {call, request_span("queue", call.context.child(), at, at)};
  const OtlpSource source{"tandem serve", "e-1", "0.1.0", std::chrono::seconds(1'000'000'000)};

  const json sent = json::parse(otlp_json(source, spans));
  const json& resource = sent["resourceSpans"][0]["resource"]["attributes"];
  EXPECT_EQ(resource[0]["key"], "service.name");
  EXPECT_EQ(resource[0]["value"]["stringValue"], "tandem serve");
  const json& list = sent["resourceSpans"][0]["scopeSpans"][0]["spans"];
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0]["traceId"], "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(list[0]["parentSpanId"], "b7ad6b7169203331");
  EXPECT_EQ(list[0]["kind"], 2);
  EXPECT_EQ(list[0]["startTimeUnixNano"], "1000000000000005000");
  EXPECT_EQ(list[0]["endTimeUnixNano"], "1000000001000005000");
  EXPECT_EQ(list[0]["status"]["code"], 2);
  ASSERT_EQ(list[0]["attributes"].size(), 3U);  // values that JSON cannot represent are left out
  EXPECT_EQ(list[0]["attributes"][0]["value"]["stringValue"], "x\n\xef\xbf\xbd");
  EXPECT_EQ(list[0]["attributes"][1]["value"]["intValue"], "3");
  EXPECT_EQ(list[0]["attributes"][2]["value"]["doubleValue"], 0.5);
  EXPECT_EQ(list[1]["parentSpanId"], list[0]["spanId"]);
  EXPECT_FALSE(list[1].contains("status"));
}

}  // namespace
}  // namespace tandem
