#include "engine/peers/fetch_back_off.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

using std::chrono::seconds;

TEST(FetchBackOff, WaitsLongerEachTimeUntilItSucceeds) {
  FetchBackOff back_off;
  TimePoint now{};
  const auto waits = [&](seconds wait) {
    back_off.failed("a", invalid("another base"), now);
    const Status held = back_off.refusal("a", now + wait - seconds(1));
    EXPECT_EQ(held.message(), "another base");
    now += wait;
    return !held.ok() && back_off.refusal("a", now).ok();
  };
  EXPECT_TRUE(back_off.refusal("a", now).ok());
  EXPECT_TRUE(waits(seconds(3)));
  EXPECT_TRUE(waits(seconds(6)));
  for (int i = 0; i < 10; ++i) {
    back_off.failed("a", invalid("another base"), now);
  }
  EXPECT_TRUE(waits(seconds(300)));
  EXPECT_TRUE(back_off.refusal("b", now).ok());
  back_off.succeeded("a");
  EXPECT_TRUE(waits(seconds(3)));
}

}  // namespace
}  // namespace tandem
