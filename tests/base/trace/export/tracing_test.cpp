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
  const auto said = [](std::string endpoint) {
    TracingOptions options;
    options.otlp_endpoint = std::move(endpoint);
    return Tracing::create(options).status().message();
  };
  EXPECT_EQ(said("https://x:1"),
            "otlp_endpoint: 'https://x:1' has another scheme than http; give http://HOST:PORT");
  EXPECT_EQ(said("collector"), "otlp_endpoint: 'collector' names no port; give http://HOST:PORT");
  EXPECT_EQ(said("http://x:4318/v1/traces"),
            "otlp_endpoint: 'http://x:4318/v1/traces' has a path; give http://HOST:PORT");
  EXPECT_FALSE(trace::on());
}

}  // namespace
}  // namespace tandem
