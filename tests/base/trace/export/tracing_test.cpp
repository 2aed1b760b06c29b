#include "base/trace/export/tracing.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/trace/tracer.h"
#include "tests/base/trace/export/stub_collector.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

TEST(Tracing, IsOffWhereNobodyWantsIt) {
  const auto none = Tracing::create({});
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(*none, nullptr);
  EXPECT_FALSE(trace::on());
}

TEST(Tracing, GivesTheSameSpansToAFileAndACollector) {
  const testing::TempDir dir;
  StubCollector collector;
  TracingOptions options;
  options.file = (dir.path() / "trace.json").string();
  options.otlp_endpoint = collector.url();
  options.service = "tandem serve";
  {
    const auto tracing = Tracing::create(options);
    ASSERT_TRUE(tracing.ok()) << tracing.status().message();
    ASSERT_TRUE(trace::on());
    trace::record(request_span("call", trace::begin(""), TimePoint{}, TimePoint{}));
    trace::record(device_span("step", SpanTrack::steps, TimePoint{}, TimePoint{}));
  }
  EXPECT_FALSE(trace::on());
  const auto sent = collector.spans([](const auto& all) { return !all.empty(); });
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0]["name"], "call");
  std::stringstream text;
  text << std::ifstream(options.file).rdbuf();
  const auto events = nlohmann::json::parse(text.str());
  EXPECT_EQ(events.size(), 6U);  // the process, two lanes, a pair, a step
}

TEST(Tracing, SaysWhichSettingIsWrong) {
  TracingOptions options;
  options.otlp_endpoint = "https://x:1";
  const auto wrong = Tracing::create(options);
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.status().message().find("otlp_endpoint"), std::string::npos);
  EXPECT_FALSE(trace::on());
}

}  // namespace
}  // namespace tandem
