#include "base/trace/export/otlp_exporter.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/log/log.h"
#include "base/trace/tracer.h"
#include "tests/base/trace/export/stub_collector.h"

namespace tandem {
namespace {

class OtlpExporterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    log::set_level(log::Level::off);
    options.linger = std::chrono::milliseconds(5);
    options.first_pause = std::chrono::milliseconds(5);
    options.last_pause = std::chrono::milliseconds(20);
    exported = trace::counts().exported.load();
    lost = trace::counts().not_exported.load();
  }
  std::unique_ptr<OtlpExporter> exporter_to(const std::string& url) const {
    auto made = OtlpExporter::create(url, {"tandem serve", "e", "1", {}}, options);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return std::move(*made);
  }
  static std::vector<Span> some(std::size_t count) {
    std::vector<Span> spans;
    for (std::size_t i = 0; i < count; ++i) {
      spans.push_back(request_span("x", begin_trace("", true, 1), TimePoint{}, TimePoint{}));
    }
    return spans;
  }
  static bool all_came(const std::vector<nlohmann::json>& spans, std::size_t count) {
    return spans.size() >= count;
  }
  std::uint64_t now_exported() const { return trace::counts().exported.load() - exported; }
  std::uint64_t now_lost() const { return trace::counts().not_exported.load() - lost; }

  OtlpOptions options;
  std::uint64_t exported = 0, lost = 0;
};

TEST_F(OtlpExporterTest, SendsRequestsSpansInBatches) {
  StubCollector collector;
  options.max_batch = 10;
  const auto exporter = exporter_to(collector.url());
  auto spans = some(25);
  spans.push_back(device_span("step", SpanTrack::steps, TimePoint{}, TimePoint{}));
  spans.push_back(request_span("x", begin_trace("", true, 0), TimePoint{}, TimePoint{}));
  exporter->add(spans);
  EXPECT_EQ(collector.spans([](const auto& all) { return all_came(all, 25); }).size(), 25U);
  EXPECT_EQ(collector.calls(), 3);
}

TEST_F(OtlpExporterTest, TriesAgainWhatIsRefusedForNow) {
  StubCollector collector;
  collector.answer(503);
  const auto exporter = exporter_to(collector.url());
  exporter->add(some(3));
  ASSERT_TRUE(collector.wait_for_calls(3));
  collector.answer(200);
  EXPECT_EQ(collector.spans([](const auto& all) { return all_came(all, 3); }).size(), 3U);
  EXPECT_EQ(now_lost(), 0U);
}

TEST_F(OtlpExporterTest, DropsWhatIsRefusedForGood) {
  StubCollector collector;
  collector.answer(400);
  const auto exporter = exporter_to(collector.url());
  exporter->add(some(3));
  ASSERT_TRUE(collector.wait_for_calls(1));
  collector.answer(200);
  exporter->add(some(1));
  EXPECT_EQ(collector.spans([](const auto& all) { return all_came(all, 1); }).size(), 1U);
  EXPECT_EQ(now_lost(), 3U);
}

// Without a collector it uses no more than the queue and the batch in flight, and blocks nobody.
TEST_F(OtlpExporterTest, CostsItsQueueAloneWhereThereIsNoCollector) {
  int port = 0;
  {
    StubCollector gone;
    port = gone.port();
  }
  options.max_queue = 100;
  options.max_batch = 10;
  {
    const auto exporter = exporter_to("http://127.0.0.1:" + std::to_string(port));
    const auto many = some(1000);
    const TimePoint begin = SteadyClock().now();
    for (int i = 0; i < 10; ++i) exporter->add(many);
    EXPECT_LT(seconds_between(begin, SteadyClock().now()), 10);
  }
  EXPECT_EQ(now_exported(), 0U);
  EXPECT_EQ(now_lost(), 10000U);  // all of them, once it has ended
}

TEST_F(OtlpExporterTest, FindsACollectorThatComesLater) {
  int port = 0;
  {
    StubCollector first;
    port = first.port();
  }
  const auto exporter = exporter_to("http://127.0.0.1:" + std::to_string(port));
  exporter->add(some(2));
  StubCollector later(port);
  EXPECT_EQ(later.spans([](const auto& all) { return all_came(all, 2); }).size(), 2U);
}

TEST_F(OtlpExporterTest, GivesOnWhatItHasAtItsEnd) {
  StubCollector collector;
  options.linger = std::chrono::seconds(60);
  options.last_patience = std::chrono::seconds(60);
  {
    const auto exporter = exporter_to(collector.url());
    exporter->add(some(2));
  }
  EXPECT_EQ(now_exported(), 2U);
  EXPECT_EQ(now_lost(), 0U);
}

TEST_F(OtlpExporterTest, RefusesAddressesThatAreNone) {
  for (const char* url : {"https://collector:4318", "collector", "http://collector:4318/v1"}) {
    EXPECT_FALSE(OtlpExporter::create(url, {}).ok()) << url;
  }
}

}  // namespace
}  // namespace tandem
