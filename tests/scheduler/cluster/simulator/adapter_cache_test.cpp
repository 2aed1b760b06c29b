#include "scheduler/cluster/simulator/adapter_cache.h"

#include <gtest/gtest.h>

#include <vector>

namespace tandem {
namespace {

using State = AdapterCache::State;

ClusterAdapterId cached_adapter(std::int32_t value) {
  return ClusterAdapterId(value);
}

struct CacheUnderTest {
  AdapterCache cache{100};
  std::vector<std::int32_t> evicted;

  bool bring(std::int32_t adapter, std::int64_t bytes) {
    const bool room = cache.begin(cached_adapter(adapter), bytes,
                                  [&](ClusterAdapterId gone) { evicted.push_back(gone.value()); });
    if (room) cache.arrived(cached_adapter(adapter));
    return room;
  }
};

TEST(AdapterCache, EvictsTheLeastRecentlyUsed) {
  CacheUnderTest test;
  EXPECT_TRUE(test.bring(1, 40));
  EXPECT_TRUE(test.bring(2, 40));
  test.cache.touch(cached_adapter(1));
  EXPECT_TRUE(test.bring(3, 40));
  EXPECT_EQ(test.evicted, std::vector<std::int32_t>{2});
  EXPECT_EQ(test.cache.state(cached_adapter(1)), State::here);
  EXPECT_EQ(test.cache.state(cached_adapter(2)), State::absent);
}

TEST(AdapterCache, KeepsWhatIsPinnedOrArriving) {
  CacheUnderTest test;
  EXPECT_TRUE(test.bring(1, 40));
  test.cache.pin(cached_adapter(1));
  EXPECT_TRUE(test.cache.begin(cached_adapter(2), 40, [](ClusterAdapterId) {}));
  EXPECT_EQ(test.cache.state(cached_adapter(2)), State::arriving);
  EXPECT_EQ(test.cache.available_bytes(), 20);
  EXPECT_FALSE(test.bring(3, 40));
  EXPECT_TRUE(test.evicted.empty());
  test.cache.unpin(cached_adapter(1));
  EXPECT_TRUE(test.bring(3, 40));
  EXPECT_EQ(test.evicted, std::vector<std::int32_t>{1});
}

TEST(AdapterCache, CountsPinsAlsoOfWhatArrives) {
  CacheUnderTest test;
  EXPECT_TRUE(test.cache.begin(cached_adapter(1), 60, [](ClusterAdapterId) {}));
  test.cache.pin(cached_adapter(1));
  test.cache.pin(cached_adapter(1));
  test.cache.unpin(cached_adapter(1));
  test.cache.arrived(cached_adapter(1));
  EXPECT_FALSE(test.bring(2, 60));
  test.cache.unpin(cached_adapter(1));
  EXPECT_TRUE(test.bring(2, 60));
}

}  // namespace
}  // namespace tandem
