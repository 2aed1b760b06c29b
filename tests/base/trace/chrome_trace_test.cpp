#include "base/trace/chrome_trace.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/support/temp_dir.h"
#include "tests/support/test_seed.h"

namespace tandem {
namespace {

using nlohmann::json;

std::string contents(const std::filesystem::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TimePoint at_us(std::int64_t us) {
  return TimePoint(std::chrono::microseconds(us));
}

Span step(std::int64_t begin_us, std::int64_t end_us) {
  return device_span("step", SpanTrack::steps, at_us(begin_us), at_us(end_us)).add("rows", 3.0);
}

TEST(ChromeTrace, IsAnArrayOfEvents) {
  const testing::TempDir dir;
  const auto path = dir.path() / "trace.json";
  TraceContext context = begin_trace("", true, 1);
  {
    auto file = ChromeTraceFile::create(path, 1 << 20, "tandem \"serve\"");
    ASSERT_TRUE(file.ok()) << file.status().message();
    Span call = request_span("/v1/completions", context, at_us(10), at_us(40));
    call.kind = SpanKind::server;
    call.add("model", "a \"b\"\n\xff");
    const Span spans[] = {step(10, 25),
                          request_span("queue", context.child(), at_us(10), at_us(12)), call};
    ASSERT_TRUE((*file)->write(spans).ok());
  }
  const json events = json::parse(contents(path));
  ASSERT_EQ(events.size(), 8U);  // the process, two lanes, a step, two pairs
  EXPECT_EQ(events[0]["args"]["name"], "tandem \"serve\"");
  EXPECT_EQ(events[2]["ph"], "X");
  EXPECT_EQ(events[2]["ts"], 10);
  EXPECT_EQ(events[2]["dur"], 15);
  EXPECT_EQ(events[2]["args"]["rows"], 3);
  EXPECT_EQ(events[4]["ph"], "b");
  EXPECT_EQ(events[5]["ph"], "e");
  EXPECT_EQ(events[4]["id2"], events[6]["id2"]);  // drawn below its call
  EXPECT_EQ(events[6]["args"]["model"], "a \"b\"\n\xef\xbf\xbd");
  EXPECT_EQ(events[4]["args"]["parent_id"], events[6]["args"]["span_id"]);
}

// As after SIGKILL: after each write, only the closing bracket is missing.
TEST(ChromeTrace, LacksNothingButItsBracketWhileItIsWritten) {
  const testing::TempDir dir;
  const auto path = dir.path() / "trace.json";
  auto file = ChromeTraceFile::create(path, 1 << 20, "p");
  ASSERT_TRUE(file.ok());
  for (int i = 0; i < 5; ++i) {
    const Span spans[] = {step(i, i + 1), step(i + 1, i + 2)};
    ASSERT_TRUE((*file)->write(spans).ok());
    const json events = json::parse(contents(path) + "]", nullptr, false);
    ASSERT_TRUE(events.is_array());
    EXPECT_EQ(events.size(), 2U + 2 * static_cast<std::size_t>(i + 1));
  }
}

TEST(ChromeTrace, KeepsTheNewestWithinItsBound) {
  const testing::TempDir dir;
  const auto path = dir.path() / "trace.json";
  constexpr std::uint64_t kMost = 64 << 10;
  constexpr int kSteps = 3000;
  {
    auto file = ChromeTraceFile::create(path, kMost, "p");
    ASSERT_TRUE(file.ok());
    for (int i = 0; i < kSteps; ++i) {
      const Span one = step(i, i + 1);
      ASSERT_TRUE((*file)->write(std::span(&one, 1)).ok());
    }
  }
  const std::string newest = contents(path);
  const std::string before = contents(path.string() + ".1");
  EXPECT_LE(newest.size() + before.size(), kMost + 1024);
  EXPECT_GT(newest.size() + before.size(), kMost / 2);
  const json last = json::parse(newest);
  const json first = json::parse(before);
  EXPECT_EQ(last.back()["ts"], kSteps - 1);
  EXPECT_EQ(first.back()["ts"].get<int>() + 1, last[2]["ts"].get<int>());  // none is lost
}

TEST(ChromeTrace, SaysWhereItCannotBeWritten) {
  const auto file = ChromeTraceFile::create("/nowhere/trace.json", 1 << 20, "p");
  ASSERT_FALSE(file.ok());
  EXPECT_NE(file.status().message().find("/nowhere/trace.json"), std::string::npos);
}

}  // namespace
}  // namespace tandem
