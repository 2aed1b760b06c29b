#include "scheduler/cluster/policies/adapter_index.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

const ClusterAdapterId kAdapter(5);
const EngineIndex kFirst(0);
const EngineIndex kSecond(1);

TEST(AdapterIndex, KnowsTiersAndActiveRequests) {
  AdapterIndex index;
  EXPECT_TRUE(index.holds(kAdapter).empty());
  index.set_tier(kAdapter, kFirst, AdapterTier::host);
  index.set_tier(kAdapter, kSecond, AdapterTier::resident);
  index.add_active(kAdapter, kSecond, 1);
  index.add_active(kAdapter, kSecond, 1);
  ASSERT_EQ(index.holds(kAdapter).size(), 2U);
  EXPECT_EQ(index.holds(kAdapter)[0].tier, AdapterTier::host);
  EXPECT_EQ(index.holds(kAdapter)[1].active_requests, 2);
  EXPECT_TRUE(index.holds(ClusterAdapterId(6)).empty());
}

TEST(AdapterIndex, KeepsAnEntryWhileItSaysAnything) {
  AdapterIndex index;
  index.set_tier(kAdapter, kFirst, AdapterTier::resident);
  index.add_active(kAdapter, kFirst, 1);
  index.set_tier(kAdapter, kFirst, AdapterTier::absent);
  ASSERT_EQ(index.holds(kAdapter).size(), 1U);
  index.add_active(kAdapter, kFirst, -1);
  EXPECT_TRUE(index.holds(kAdapter).empty());
  index.add_active(kAdapter, kFirst, -1);  // a late report of a removed engine
  EXPECT_TRUE(index.holds(kAdapter).empty());
}

TEST(AdapterIndex, ForgetsAnEngineThatIsGone) {
  AdapterIndex index;
  index.set_tier(kAdapter, kFirst, AdapterTier::host);
  index.set_tier(kAdapter, kSecond, AdapterTier::host);
  index.set_tier(ClusterAdapterId(9), kFirst, AdapterTier::host);
  index.remove_engine(kFirst);
  ASSERT_EQ(index.holds(kAdapter).size(), 1U);
  EXPECT_EQ(index.holds(kAdapter)[0].engine, kSecond);
  EXPECT_TRUE(index.holds(ClusterAdapterId(9)).empty());
}

}  // namespace
}  // namespace tandem
