#include "base/trace/trace_context.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/support/test_seed.h"

namespace tandem {
namespace {

constexpr const char* kHeader = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

TEST(TraceContext, ComesAndGoesAsAHeader) {
  const auto context = read_traceparent(kHeader);
  ASSERT_TRUE(context.has_value());
  EXPECT_EQ(trace_hex(context->trace), "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(context->span, 0xb7ad6b7169203331U);
  EXPECT_TRUE(context->sampled);
  EXPECT_EQ(traceparent(*context), kHeader);
}

TEST(TraceContext, IsReadFromLaterVersionsAsFromTheFirst) {
  const std::string later = std::string(kHeader).replace(0, 2, "cc");
  EXPECT_TRUE(read_traceparent(later).has_value());
  EXPECT_TRUE(read_traceparent(later + "-more").has_value());
  EXPECT_FALSE(read_traceparent(later + "more").has_value());
}

TEST(TraceContext, IsNotReadFromWhatIsNoHeader) {
  const std::string good = kHeader;
  for (std::size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(read_traceparent(good.substr(0, length)).has_value()) << length;
  }
  EXPECT_FALSE(read_traceparent(good + "-more").has_value());
  EXPECT_FALSE(read_traceparent("ff" + good.substr(2)).has_value());
  EXPECT_FALSE(read_traceparent("00-" + std::string(32, '0') + good.substr(35)).has_value());
  EXPECT_FALSE(read_traceparent(good.substr(0, 36) + std::string(16, '0') + "-01").has_value());
  EXPECT_FALSE(read_traceparent("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01"));
  std::mt19937_64 random(test_seed());
  for (int i = 0; i < 20000; ++i) {  // whatever can be read is written back unchanged
    std::string text = good;
    text[random() % text.size()] = static_cast<char>(random());
    const auto context = read_traceparent(text);
    if (!context) continue;
    const auto again = read_traceparent(traceparent(*context));
    ASSERT_TRUE(again && again->trace == context->trace && again->span == context->span) << text;
  }
}

TEST(TraceContext, FollowsItsCaller) {
  const TraceContext ours = begin_trace(kHeader, true, 0);
  EXPECT_EQ(trace_hex(ours.trace), "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(ours.parent, 0xb7ad6b7169203331U);
  EXPECT_NE(ours.span, ours.parent);
  EXPECT_TRUE(ours.sampled);
  const TraceContext unsampled = begin_trace(std::string(kHeader).replace(53, 2, "00"), true, 1);
  EXPECT_TRUE(unsampled.valid());
  EXPECT_FALSE(unsampled.sampled);
}

TEST(TraceContext, IsTheCallersOwnWhereTracingIsOff) {
  EXPECT_EQ(traceparent(begin_trace(kHeader, false, 1)), kHeader);
  EXPECT_FALSE(begin_trace("", false, 1).valid());
  EXPECT_FALSE(begin_trace("nonsense", false, 1).valid());
}

TEST(TraceContext, SamplesItsShareOfTracesThatBeginHere) {
  int sampled = 0;
  std::set<std::string> seen;
  for (int i = 0; i < 4000; ++i) {
    const TraceContext context = begin_trace("", true, 0.25);
    sampled += context.sampled ? 1 : 0;
    EXPECT_EQ(context.parent, 0U);
    seen.insert(trace_hex(context.trace));
  }
  EXPECT_EQ(seen.size(), 4000U);
  EXPECT_GT(sampled, 850);  // five standard deviations
  EXPECT_LT(sampled, 1150);
  EXPECT_TRUE(begin_trace("", true, 1).sampled);
  EXPECT_FALSE(begin_trace("", true, 0).sampled);
}

}  // namespace
}  // namespace tandem
