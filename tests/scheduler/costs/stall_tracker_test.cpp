#include "scheduler/costs/stall_tracker.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace tandem {
namespace {

constexpr double kNear = 1e-9;
constexpr StallKind kWhole = StallKind::read_whole;
constexpr StallKind kXa = StallKind::multiply_xa;

TEST(StallFactors, AreOnesAtFirst) {
  const StallFactors factors;
  for (double seconds = 1e-7; seconds < 1; seconds *= 1.7) {
    EXPECT_NEAR(factors.of(kWhole, seconds), 1, kNear);
    EXPECT_NEAR(factors.of(kXa, seconds), 1, kNear);
  }
}

TEST(StallFactors, RiseAndFallWithoutJumps) {
  StallFactors factors;
  for (std::size_t i = 0; i < StallFactors::kBuckets; ++i) {
    factors.tables[0][i] = i % 2 == 0 ? 0.5 : 2;
  }
  constexpr double kStep = 1.001;
  double before = factors.of(kWhole, 1e-6);
  for (double seconds = 1e-6; seconds < 0.5; seconds *= kStep) {
    const double now = factors.of(kWhole, seconds);
    EXPECT_GE(now, 0.5 - kNear);
    EXPECT_LE(now, 2 + kNear);
    EXPECT_LT(std::abs(now - before), 0.01) << seconds;
    before = now;
  }
}

TEST(StallTracker, BelievesWhatItSees) {
  StallTracker tracker;
  for (int i = 0; i < 3; ++i) tracker.observe(kWhole, 100e-6, 300e-6);
  EXPECT_NEAR(tracker.factors().of(kWhole, 100e-6), 3, kNear);
  EXPECT_NEAR(tracker.factors().of(kXa, 100e-6), 1, kNear) << "of the other kind nothing is known";
}

TEST(StallTracker, TakesTheNearestForWhatItHasNotSeen) {
  StallTracker tracker;
  tracker.observe(kXa, 100e-6, 300e-6);
  EXPECT_NEAR(tracker.factors().of(kXa, 10e-6), 3, kNear);
  EXPECT_NEAR(tracker.factors().of(kXa, 10e-3), 3, kNear);
  tracker.observe(kXa, 3200e-6, 3200e-6);
  EXPECT_NEAR(tracker.factors().of(kXa, 1), 1, kNear);
  const double between = tracker.factors().of(kXa, 600e-6);
  EXPECT_GT(between, 1);
  EXPECT_LT(between, 3);
}

TEST(StallTracker, IsNotImpressedByAWorkerThatWasHeldUpOnce) {
  StallTracker tracker;
  for (int i = 0; i < 20; ++i) tracker.observe(kWhole, 1e-3, i % 7 == 3 ? 1.0 : 1e-3);
  EXPECT_NEAR(tracker.factors().of(kWhole, 1e-3), 1, kNear);
}

TEST(StallTracker, FollowsAMachineThatHasBecomeSlower) {
  StallTracker tracker;
  for (int i = 0; i < 100; ++i) tracker.observe(kWhole, 1e-3, 1e-3);
  for (int i = 0; i < 7; ++i) tracker.observe(kWhole, 1e-3, 2e-3);
  EXPECT_NEAR(tracker.factors().of(kWhole, 1e-3), 2, kNear);
}

TEST(StallTracker, IgnoresWhatIsNoMeasurement) {
  StallTracker tracker;
  tracker.observe(kWhole, 0, 1);
  tracker.observe(kWhole, -1, 1);
  tracker.observe(kWhole, std::nan(""), 1);
  tracker.observe(kWhole, HUGE_VAL, 1);
  tracker.observe(kWhole, 1e-3, std::nan(""));
  tracker.observe(kWhole, 1e-3, -5e-3);  // steps were taken to be slower than this one
  tracker.observe(kWhole, 1e-3, 1);
  EXPECT_EQ(tracker.observed(), 0U);
  EXPECT_EQ(tracker.factors(), StallFactors());
}

// Stalls that are off by any factors, by their size and kind, are known within a tenth after 50.
TEST(StallTracker, HealsWhateverFactorsTheCostsAreOffBy) {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> noise(0.95, 1.05), exponent(-1, 1);
    const double whole = std::pow(3.0, exponent(random)), xa = std::pow(3.0, exponent(random));
    StallTracker tracker;
    std::uniform_real_distribution<double> size(std::log(30e-6), std::log(10e-3));
    for (int i = 0; i < 50; ++i) {
      const double model_s = std::exp(size(random));
      tracker.observe(i % 2 == 0 ? kXa : kWhole, model_s,
                      model_s * (i % 2 == 0 ? xa : whole) * noise(random));
    }
    for (double model_s = 30e-6; model_s < 10e-3; model_s *= 1.3) {
      EXPECT_NEAR(tracker.factors().of(kWhole, model_s) / whole, 1, 0.1) << model_s;
      EXPECT_NEAR(tracker.factors().of(kXa, model_s) / xa, 1, 0.1) << model_s;
    }
  }
}

}  // namespace
}  // namespace tandem
