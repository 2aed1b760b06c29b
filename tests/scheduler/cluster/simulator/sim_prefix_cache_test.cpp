#include "scheduler/cluster/simulator/sim_prefix_cache.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(SimPrefixCache, KeepsAPrefixWhileItIsUsedAndThenWhileThereIsRoom) {
  SimPrefixCache cache(100);
  EXPECT_FALSE(cache.has(1));
  cache.enter(1, 40);
  cache.enter(1, 40);
  EXPECT_TRUE(cache.has(1));
  cache.leave(1, 10);
  cache.make_room(100);  // evicts unused prefixes only
  EXPECT_TRUE(cache.has(1));
  cache.leave(1, 10);
  cache.make_room(50);
  EXPECT_TRUE(cache.has(1));
  cache.make_room(61);
  EXPECT_FALSE(cache.has(1));
}

TEST(SimPrefixCache, ForgetsWhatWasUsedLeastRecently) {
  SimPrefixCache cache(100);
  for (const int prefix : {1, 2, 3}) {
    cache.enter(prefix, 20);
    cache.leave(prefix, 10);  // leaves before its prefix
  }
  cache.make_room(10);
  cache.enter(1, 20);
  cache.leave(1, 0);
  cache.make_room(60);
  EXPECT_FALSE(cache.has(2));
  EXPECT_TRUE(cache.has(3));
  EXPECT_TRUE(cache.has(1));
  cache.make_room(80);
  EXPECT_FALSE(cache.has(3));
  EXPECT_TRUE(cache.has(1));
}

}  // namespace
}  // namespace tandem
