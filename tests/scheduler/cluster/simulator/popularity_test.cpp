#include "scheduler/cluster/simulator/popularity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tandem {
namespace {

TEST(Popularity, OfAzureHasThePublishedSkew) {
  const auto weights = popularity_weights("azure", 40'000, 1);
  ASSERT_TRUE(weights.ok());
  EXPECT_TRUE(std::is_sorted(weights->rbegin(), weights->rend()));
  EXPECT_NEAR(std::accumulate(weights->begin(), weights->end(), 0.0), 1, 1e-9);
  // Relative to an adapter that is requested once a minute, 81 % have no higher rate, and 45 % at
  // most a sixtieth of it.
  const double minutely = (*weights)[static_cast<std::size_t>(40'000 * 0.19)];
  const double hourly = (*weights)[static_cast<std::size_t>(40'000 * 0.55)];
  EXPECT_NEAR(minutely / hourly, 60, 1);
  // According to the trace's paper 18.6 % receive 99.6 % of all calls.
  const double popular = std::accumulate(weights->begin(), weights->begin() + 7440, 0.0);
  EXPECT_NEAR(popular, 0.996, 0.004);
  EXPECT_LT(weights->front(), 0.15);
}

TEST(Popularity, OfZipfFallsWithThePlace) {
  const auto weights = popularity_weights("zipf", 100, 1);
  ASSERT_TRUE(weights.ok());
  EXPECT_NEAR((*weights)[0] / (*weights)[9], 10, 1e-9);
  EXPECT_FALSE(popularity_weights("normal", 100, 1).ok());
}

TEST(WeightedChoice, DrawsByWeight) {
  const std::vector<double> weights = {0, 5, 1, 3, 1};
  const WeightedChoice choice(weights);
  std::mt19937_64 random(1);
  std::vector<int> counts(weights.size(), 0);
  for (int i = 0; i < 100'000; ++i) ++counts[choice.draw(random)];
  for (std::size_t i = 0; i < weights.size(); ++i) {
    EXPECT_NEAR(counts[i], weights[i] * 10'000, 600) << i;
  }
  EXPECT_EQ(counts[0], 0);
}

}  // namespace
}  // namespace tandem
