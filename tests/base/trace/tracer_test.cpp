#include "base/trace/tracer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>

namespace tandem {
namespace {

class TracerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::vector<Span> before;
    trace::take(before);
  }
  void TearDown() override { trace::switch_off(); }

  static Span numbered(int number) {
    return request_span("x", {}, TimePoint{}, TimePoint{}).add("n", static_cast<double>(number));
  }
};

TEST_F(TracerTest, IsOffUntilSomebodyWantsIt) {
  EXPECT_FALSE(trace::on());
  EXPECT_FALSE(trace::begin("").valid());
  trace::switch_on(1);
  EXPECT_TRUE(trace::on());
  EXPECT_TRUE(trace::begin("").sampled);
}

TEST_F(TracerTest, KeepsAThreadsSpansInTheirOrder) {
  std::vector<Span> spans;
  for (int turn = 0; turn < 3; ++turn) {  // more than a ring in total, but taken in time
    for (int i = 0; i < 1000; ++i) trace::record(numbered(turn * 1000 + i));
    trace::take(spans);
  }
  ASSERT_EQ(spans.size(), 3000U);
  for (int i = 0; i < 3000; ++i) {
    ASSERT_EQ(spans[static_cast<std::size_t>(i)].numbers[0].value, i);
  }
}

TEST_F(TracerTest, DropsAndCountsWhatNobodyTakes) {
  const std::uint64_t before = trace::counts().dropped.load();
  for (std::size_t i = 0; i < trace::kRingSpans + 7; ++i) trace::record(numbered(1));
  EXPECT_EQ(trace::counts().dropped.load() - before, 7U);
  std::vector<Span> spans;
  trace::take(spans);
  EXPECT_EQ(spans.size(), trace::kRingSpans);
  EXPECT_NE(trace::metrics_text().find("where=\"ring\"} "), std::string::npos);
}

TEST_F(TracerTest, LosesNothingBetweenThreadsAndAReader) {
  constexpr int kThreads = 4;
  constexpr int kEach = 500;  // they fit one ring, if each thread reuses it
  const std::uint64_t before = trace::counts().dropped.load();
  std::vector<Span> spans;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([] {
        for (int i = 0; i < kEach; ++i) trace::record(numbered(i));
      });
    }
    for (int i = 0; i < 100; ++i) trace::take(spans);
  }
  trace::take(spans);
  EXPECT_EQ(spans.size() + trace::counts().dropped.load() - before,
            static_cast<std::size_t>(kThreads * kEach));
  EXPECT_EQ(std::ranges::count_if(spans, [](const Span& s) { return s.numbers[0].value == 7; }),
            kThreads);
}

TEST_F(TracerTest, CutsLongTextsBetweenCharacters) {
  Span span = numbered(0);
  span.add("text", std::string(79, 'x') + "\xc3\xa9");
  EXPECT_EQ(span.texts[0].view(), std::string(79, 'x'));
  for (int i = 0; i < 20; ++i) span.add("more", "x").add("n", 1.0);  // beyond the capacity
  EXPECT_EQ(span.num_texts, span.texts.size());
  EXPECT_EQ(span.num_numbers, span.numbers.size());
}

}  // namespace
}  // namespace tandem
