#include "scheduler/cluster/policies/demand_sketch.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>

namespace tandem {
namespace {

TEST(DemandSketch, KnowsTheSharesOfTheHot) {
  std::mt19937_64 random(1);
  const auto sketch = std::make_unique<DemandSketch>();
  EXPECT_EQ(sketch->share(ClusterAdapterId(1)), 0);
  for (int i = 0; i < 7'500; ++i) {
    const bool hot = random() % 5 == 0;
    sketch->count(ClusterAdapterId(hot ? 1 : static_cast<std::int32_t>(2 + random() % 40'000)));
  }
  EXPECT_NEAR(sketch->share(ClusterAdapterId(1)), 0.2, 0.03);
  EXPECT_LT(sketch->share(ClusterAdapterId(99'999)), 0.005);
}

TEST(DemandSketch, ForgetsWhatWasPopular) {
  const auto sketch = std::make_unique<DemandSketch>();
  for (std::uint32_t i = 0; i < DemandSketch::kWindow; ++i) sketch->count(ClusterAdapterId(1));
  for (std::uint32_t i = 0; i < 4 * DemandSketch::kWindow; ++i) {
    sketch->count(ClusterAdapterId(static_cast<std::int32_t>(100 + i % 1000)));
  }
  EXPECT_LT(sketch->share(ClusterAdapterId(1)), 0.01);
}

}  // namespace
}  // namespace tandem
