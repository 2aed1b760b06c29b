#include "scheduler/planning/costs/cost_learner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "scheduler/planning/costs/cost_model.h"

namespace tandem {
namespace {

constexpr double kNear = 1e-9;
constexpr StallKind kWhole = StallKind::read_whole;
constexpr StallKind kXa = StallKind::multiply_xa;

TEST(CostFactors, AreOnesAtFirst) {
  const CostFactors factors;
  for (double seconds = 1e-7; seconds < 1; seconds *= 1.7) {
    EXPECT_NEAR(factors.stall(kWhole, seconds), 1, kNear);
    EXPECT_NEAR(factors.stall(kXa, seconds), 1, kNear);
  }
}

TEST(CostFactors, RiseAndFallWithoutJumps) {
  CostFactors factors;
  for (std::size_t i = 0; i < FactorTable::kBuckets; ++i) {
    factors.stalls[0].values[i] = i % 2 == 0 ? 0.5 : 2;
  }
  constexpr double kStep = 1.001;
  double before = factors.stall(kWhole, 1e-6);
  for (double seconds = 1e-6; seconds < 0.5; seconds *= kStep) {
    const double now = factors.stall(kWhole, seconds);
    EXPECT_GE(now, 0.5 - kNear);
    EXPECT_LE(now, 2 + kNear);
    EXPECT_LT(std::abs(now - before), 0.01) << seconds;
    before = now;
  }
}

TEST(CostLearner, BelievesWhatItSees) {
  CostLearner learner;
  for (int i = 0; i < 3; ++i) learner.observe_stall(kWhole, 100e-6, 300e-6);
  EXPECT_NEAR(learner.factors().stall(kWhole, 100e-6), 3, kNear);
  EXPECT_NEAR(learner.factors().stall(kXa, 100e-6), 1, kNear)
      << "of the other kind nothing is known";
}

TEST(CostLearner, TakesTheNearestForWhatItHasNotSeen) {
  CostLearner learner;
  learner.observe_stall(kXa, 100e-6, 300e-6);
  EXPECT_NEAR(learner.factors().stall(kXa, 10e-6), 3, kNear);
  EXPECT_NEAR(learner.factors().stall(kXa, 10e-3), 3, kNear);
  learner.observe_stall(kXa, 3200e-6, 3200e-6);
  EXPECT_NEAR(learner.factors().stall(kXa, 1), 1, kNear);
  const double between = learner.factors().stall(kXa, 600e-6);
  EXPECT_GT(between, 1);
  EXPECT_LT(between, 3);
}

TEST(CostLearner, IsNotImpressedByAWorkerThatWasHeldUpOnce) {
  CostLearner learner;
  for (int i = 0; i < 20; ++i) learner.observe_stall(kWhole, 1e-3, i % 7 == 3 ? 1.0 : 1e-3);
  EXPECT_NEAR(learner.factors().stall(kWhole, 1e-3), 1, kNear);
}

// This includes new sizes: otherwise a step in which all workers stalled would make the next ones
// wait, and waiting steps teach nothing about workers.
TEST(CostLearner, DoesNotGoByTheFirstHandoverOfItsSizeIfThatWasHeldUp) {
  CostLearner learner;
  learner.observe_stall(kWhole, 1e-3, 50e-3);
  EXPECT_EQ(learner.factors(), CostFactors());
  learner.observe_stall(kWhole, 1e-3, 2e-3);
  EXPECT_NEAR(learner.factors().stall(kWhole, 1e-3), 2, kNear);
  learner.observe_stall(kWhole, 1e-3, 50e-3);
  EXPECT_NEAR(learner.factors().stall(kWhole, 1e-3), 2, kNear) << "nor by the second";
}

TEST(CostLearner, BelievesWhatTookMuchLongerTwice) {
  CostLearner learner;
  for (int i = 0; i < 2; ++i) learner.observe_stall(kWhole, 1e-3, 50e-3);
  EXPECT_NEAR(learner.factors().stall(kWhole, 1e-3), 50, kNear);
  EXPECT_EQ(learner.observed(), 1U);
  for (const bool wild_first : {true, false}) {
    CostLearner other;
    for (const bool wild : {wild_first, !wild_first}) {
      other.observe_stall(kWhole, 1e-3, wild ? 50e-3 : 4.5e-3);
    }
    EXPECT_NEAR(other.factors().stall(kWhole, 1e-3), 4.5, kNear) << wild_first;
  }
}

// Layers are measured in every step, so a wrong belief is soon corrected.
TEST(CostLearner, BelievesLayersThatTookMuchLongerAtOnce) {
  CostLearner learner;
  learner.observe_layers(8, 4e-3, 40e-3);
  EXPECT_NEAR(learner.factors().layers.of(8), 10, kNear);
}

TEST(CostLearner, FollowsAMachineThatHasBecomeSlower) {
  CostLearner learner;
  for (int i = 0; i < 100; ++i) learner.observe_stall(kWhole, 1e-3, 1e-3);
  for (int i = 0; i < 7; ++i) learner.observe_stall(kWhole, 1e-3, 2e-3);
  EXPECT_NEAR(learner.factors().stall(kWhole, 1e-3), 2, kNear);
}

TEST(CostLearner, TakesBoundsOfLayersForWhatContradictsThem) {
  CostLearner learner;
  learner.bound_layers(8, 4e-3, 5e-3, Bound::at_most);
  learner.bound_layers(8, 4e-3, 3e-3, Bound::at_least);
  learner.bound_layers(8, 4e-3, 3.5e-3, Bound::at_most);   // within the tolerance
  learner.bound_layers(8, 4e-3, 4.5e-3, Bound::at_least);  // within the tolerance
  EXPECT_EQ(learner.observed(), 0U);
  learner.bound_layers(8, 4e-3, 2e-3, Bound::at_most);
  EXPECT_NEAR(learner.factors().layers.of(8), 0.5, kNear);
  learner.bound_layers(8, 4e-3, 2.3e-3, Bound::at_least);
  EXPECT_EQ(learner.observed(), 1U);
  learner.bound_layers(8, 4e-3, 6e-3, Bound::at_least);
  EXPECT_EQ(learner.observed(), 2U);
}

// Otherwise a size half way between two known ones would never be corrected.
TEST(CostLearner, TakesBoundsForBothSizesAroundIt) {
  CostLearner learner;
  learner.observe_layers(8, 4e-3, 4e-3);
  for (int i = 0; i < 7; ++i) learner.observe_layers(16, 4e-3, 20e-3);
  for (int i = 0; i < 4; ++i) learner.bound_layers(12, 4e-3, 4e-3, Bound::at_most);
  EXPECT_NEAR(learner.factors().layers.of(12), 1, kNear);
}

TEST(CostLearner, CanBeOptimisticOfWhatItSawOfHandovers) {
  CostLearner learner;
  for (const double seen_s : {300e-6, 120e-6, 400e-6}) learner.observe_stall(kWhole, 1e-4, seen_s);
  for (const double seen_s : {9e-3, 8e-3, 7e-3}) learner.observe_layers(8, 4e-3, seen_s);
  learner.be_optimistic();
  EXPECT_NEAR(learner.factors().stall(kWhole, 1e-4), 1.2, kNear);
  EXPECT_NEAR(learner.factors().stall(kXa, 1e-4), 1, kNear) << "nothing was seen of it";
  EXPECT_NEAR(learner.factors().layers.of(8), 2, kNear) << "layers are measured in any case";
  for (int i = 0; i < 2; ++i) learner.observe_stall(kWhole, 1e-4, 400e-6);
  EXPECT_NEAR(learner.factors().stall(kWhole, 1e-4), 4, kNear) << "and is soon corrected";
}

TEST(CostLearner, BelievesTheLesserOfTwo) {
  CostLearner learner;
  for (const double seen_s : {1e-4, 3e-4}) learner.observe_stall(kWhole, 1e-4, seen_s);
  EXPECT_NEAR(learner.factors().stall(kWhole, 1e-4), 1, kNear);
  learner.observe_stall(kWhole, 1e-4, 3e-4);
  EXPECT_NEAR(learner.factors().stall(kWhole, 1e-4), 3, kNear);
}

TEST(CostLearner, IgnoresWhatIsNoMeasurement) {
  CostLearner learner;
  learner.observe_stall(kWhole, 0, 1);
  learner.observe_stall(kWhole, -1, 1);
  learner.observe_stall(kWhole, std::nan(""), 1);
  learner.observe_stall(kWhole, HUGE_VAL, 1);
  learner.observe_stall(kWhole, 1e-3, std::nan(""));
  learner.observe_stall(kWhole, 1e-3, -5e-3);  // the step was faster than predicted
  learner.observe_stall(kWhole, 1e-3, 1);
  EXPECT_EQ(learner.observed(), 0U);
  EXPECT_EQ(learner.factors(), CostFactors());
}

// Factors of stalls by size and kind are learned to within a tenth after 50 observations.
TEST(CostLearner, HealsWhateverFactorsTheCostsAreOffBy) {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> noise(0.95, 1.05), exponent(-1, 1);
    const double whole = std::pow(3.0, exponent(random)), xa = std::pow(3.0, exponent(random));
    CostLearner learner;
    std::uniform_real_distribution<double> size(std::log(30e-6), std::log(10e-3));
    for (int i = 0; i < 50; ++i) {
      const double model_s = std::exp(size(random));
      learner.observe_stall(i % 2 == 0 ? kXa : kWhole, model_s,
                            model_s * (i % 2 == 0 ? xa : whole) * noise(random));
    }
    for (double model_s = 30e-6; model_s < 10e-3; model_s *= 1.3) {
      EXPECT_NEAR(learner.factors().stall(kWhole, model_s) / whole, 1, 0.1) << model_s;
      EXPECT_NEAR(learner.factors().stall(kXa, model_s) / xa, 1, 0.1) << model_s;
    }
  }
}

// A prompt of 256 tokens that takes longer than predicted says nothing about one of 16.
TEST(CostLearner, KnowsLayersByTheirRows) {
  CostLearner learner;
  for (int i = 0; i < 5; ++i) {
    learner.observe_layers(16, 4e-3, 4.2e-3);
    learner.observe_layers(256, 6.2e-3, 7.5e-3);
  }
  CostModel costs;
  costs.factors = learner.factors();
  EXPECT_NEAR(costs.layer_time(16) / costs.modelled_layer(16), 1.05, kNear);
  EXPECT_NEAR(costs.layer_time(256) / costs.modelled_layer(256), 7.5 / 6.2, kNear);
  EXPECT_NEAR(costs.layer_time(4096) / costs.modelled_layer(4096), 7.5 / 6.2, kNear);
}

// Workers' answers on the same link make a load slower than the link allows.
TEST(CostLearner, TakesALinkToBeAsFastAsItWasAtItsBest) {
  CostLearner learner;
  for (int i = 0; i < 9; ++i) learner.observe_loads(2e-3, i % 3 == 0 ? 4.4e-3 : 6e-3);
  CostModel costs;
  costs.factors = learner.factors();
  EXPECT_NEAR(costs.load_time(1 << 20, 1) / costs.modelled_load(1 << 20, 1), 2.2, kNear);
}

TEST(CostLearner, FollowsALinkThatIsSharedFromNowOn) {
  CostLearner learner;
  for (int i = 0; i < 50; ++i) learner.observe_loads(2e-3, 2e-3);
  for (int i = 0; i < 9; ++i) learner.observe_loads(2e-3, 8e-3);
  EXPECT_NEAR(learner.factors().link, 4, kNear);
}

TEST(CostLearner, GoesOnWithWhatAnotherHasLearnt) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> ratio(0.1, 10), size(1, 4000);
    std::uniform_int_distribution<int> kind(0, 3);
    CostLearner first;
    for (int i = 0; i < 200; ++i) {
      first.observe_stall(static_cast<StallKind>(kind(random)), size(random) * 1e-6,
                          size(random) * 1e-6);
      first.observe_layers(static_cast<std::int32_t>(size(random)), 1e-3, ratio(random) * 1e-3);
      first.observe_loads(1e-3, ratio(random) * 1e-3);
    }
    CostLearner second;
    second.restore(first.lessons());
    EXPECT_EQ(second.factors(), first.factors());
    EXPECT_EQ(second.lessons(), first.lessons());
  }
}

TEST(CostLearner, LeavesOutLessonsThatNobodyCanHaveLearnt) {
  CostLessons lessons;
  lessons.layers[3] = {std::nan(""), -1, 0, 1e9, HUGE_VAL};
  lessons.stalls[2][0] = {1e-9};
  lessons.link = {0, -3, 1e6, std::nan("")};
  CostLearner learner;
  learner.restore(lessons);
  EXPECT_EQ(learner.factors(), CostFactors());
}

}  // namespace
}  // namespace tandem
