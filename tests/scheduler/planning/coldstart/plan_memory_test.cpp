#include "scheduler/planning/coldstart/plan_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>

namespace tandem {
namespace {

using Way = PlanWay;

constexpr PlanSituation kHere{1, 9, 2};
constexpr double kPlan = 9e-3, kWait = 10.9e-3;  // predicted
constexpr double kNone = std::numeric_limits<double>::infinity();

PlanSeconds seconds(double plan, double wait, double assist = kNone) {
  return {wait, plan, assist};
}

TEST(PlanMemory, TrustsAPlanThatItKnowsNothingAbout) {
  EXPECT_EQ(PlanMemory().choose(kHere, seconds(kPlan, kWait)), Way::plan);
}

TEST(PlanMemory, WaitsWherePlansWereSeenToLose) {
  PlanMemory memory;
  memory.observe(kHere, Way::plan, kPlan, 13e-3);
  EXPECT_EQ(memory.choose(kHere, seconds(kPlan, kWait)), Way::wait);
  EXPECT_EQ(memory.choose({1, 8, 2}, seconds(kPlan, kWait)), Way::plan) << "another situation";
  EXPECT_EQ(memory.choose(kHere, seconds(kPlan, 40e-3)), Way::plan)
      << "waiting would be worse still";
}

TEST(PlanMemory, GoesBackToThePlanWhereWaitingTurnsOutWorse) {
  PlanMemory memory;
  memory.observe(kHere, Way::plan, kPlan, 13e-3);
  for (int i = 0; i < 3; ++i) memory.observe(kHere, Way::wait, kWait, 15e-3);
  EXPECT_EQ(memory.choose(kHere, seconds(kPlan, kWait)), Way::plan);
}

TEST(PlanMemory, ExpectsOfASituationWithoutStepsWhatIsPredicted) {
  PlanMemory memory;
  for (int i = 0; i < 3; ++i) memory.observe(kHere, Way::plan, 1, 4);
  const PlanSeconds predicted = seconds(1, 2, 3);
  EXPECT_EQ(memory.expected({1, 9, 3}, predicted), predicted);
  EXPECT_EQ(memory.expected(kHere, predicted), seconds(4, 2, 12)) << "the same costs with workers";
}

TEST(PlanMemory, WantsAGainForTheCoresThatAPlanTakes) {
  PlanMemory memory;
  memory.observe(kHere, Way::plan, 1, 1);
  EXPECT_EQ(memory.choose(kHere, seconds(0.99, 1)), Way::wait);
  EXPECT_EQ(memory.choose(kHere, seconds(0.97, 1)), Way::plan);
}

TEST(PlanMemory, WaitsWhereAPlanPromisesNextToNothing) {
  EXPECT_EQ(PlanMemory().choose(kHere, seconds(0.99, 1)), Way::wait);
  EXPECT_EQ(PlanMemory().choose(kHere, seconds(0.97, 1)), Way::plan);
}

TEST(PlanMemory, TellsWhatWasPromisedWhateverWasSeen) {
  PlanMemory memory;
  memory.observe(kHere, Way::plan, kPlan, 13e-3);
  EXPECT_EQ(PlanMemory::promised(seconds(kPlan, kWait)), Way::plan);
  EXPECT_EQ(PlanMemory::promised(seconds(0.99, 1)), Way::wait);
  EXPECT_EQ(memory.num_situations(), 1U);
  memory.observe({1, 8, 2}, Way::wait, kWait, kWait);
  EXPECT_EQ(memory.num_situations(), 2U);
}

// A single stall may have hit the first step of its kind, so it does not settle the matter.
TEST(PlanMemory, BelievesHalfOfWhatItSawOnce) {
  const PlanSeconds predicted = seconds(kPlan, 40e-3);
  PlanMemory memory;
  memory.observe(kHere, Way::plan, kPlan, 6 * kPlan);
  EXPECT_EQ(memory.choose(kHere, predicted), Way::plan);
  PlanMemory bad = memory;
  bad.observe(kHere, Way::plan, kPlan, 6 * kPlan);
  EXPECT_EQ(bad.choose(kHere, predicted), Way::wait) << "twice is believed";
  for (int i = 0; i < 2; ++i) {
    memory.observe(kHere, Way::plan, kPlan, kPlan);
    EXPECT_EQ(memory.choose(kHere, predicted), Way::plan);
  }
  EXPECT_EQ(memory.choose(kHere, seconds(kPlan, kWait)), Way::plan) << "it is forgotten";
}

TEST(PlanMemory, GoesByTheStepThatWasNotHeldUpIfItSawTwo) {
  const auto expected_after = [](double first, double second) {
    PlanMemory memory;
    memory.observe(kHere, Way::plan, 1, first);
    memory.observe(kHere, Way::plan, 1, second);
    return memory.expected(kHere, {2, 1, kNone})[index_of(Way::plan)];
  };
  EXPECT_DOUBLE_EQ(expected_after(1.1, 4), 1.1);
  EXPECT_DOUBLE_EQ(expected_after(4, 1.1), 1.1);
  EXPECT_DOUBLE_EQ(expected_after(0.9, 4), 1) << "between the two is what was predicted";
  EXPECT_DOUBLE_EQ(expected_after(3, 4), 3);
  EXPECT_DOUBLE_EQ(expected_after(0.5, 0.8), 0.8);
}

// A single stall changes nothing.
TEST(PlanMemory, ForgetsWhatHappenedOnce) {
  PlanMemory memory;
  for (int i = 0; i < 20; ++i) {
    memory.observe(kHere, Way::plan, kPlan, i == 17 ? 80e-3 : kPlan);
  }
  EXPECT_EQ(memory.choose(kHere, seconds(kPlan, kWait)), Way::plan);
}

TEST(PlanMemory, TriesTheOtherWayOnceInAHundredSteps) {
  PlanMemory memory;
  for (int i = 0; i < 3; ++i) memory.observe(kHere, Way::plan, kPlan, 12e-3);
  int tried = 0;
  for (int i = -100; i < 1000; ++i) {  // in the first hundred also early
    const Way way = memory.choose(kHere, seconds(kPlan, kWait));
    EXPECT_EQ(memory.choose(kHere, seconds(kPlan, kWait)), way) << "asked again, the same";
    tried += i >= 0 && way == Way::plan ? 1 : 0;
    memory.observe(kHere, way, way == Way::wait ? kWait : kPlan, way == Way::wait ? kWait : 12e-3);
  }
  EXPECT_EQ(tried, 10);
}

// This way a plan is used again after its costs have healed or the machine has become quieter.
TEST(PlanMemory, FindsAWayAgainThatHasBecomeTheBetterOne) {
  PlanMemory memory;
  for (int i = 0; i < 5; ++i) memory.observe(kHere, Way::plan, kPlan, 13e-3);
  int steps = 0;
  for (; steps < 1000; ++steps) {
    const Way way = memory.choose(kHere, seconds(kPlan, kWait));
    memory.observe(kHere, way, way == Way::wait ? kWait : kPlan, way == Way::wait ? kWait : kPlan);
    if (steps > 500 && way == Way::wait) break;
  }
  EXPECT_EQ(5 + steps, 599) << "but for the hundredth, which tries waiting";
}

// The worse a way is, the more rarely it is tried: trials take half a percent of the time.
TEST(PlanMemory, TriesWhatIsMuchWorseTheMoreSeldom) {
  for (const double times_as_long : {1.25, 2.0, 5.0}) {
    PlanMemory memory;
    const double bad = times_as_long * kWait;
    for (std::size_t i = 0; i < PlanMemory::kRemembered; ++i) {
      memory.observe(kHere, Way::plan, kPlan, bad);
    }
    double took = 0, lost = 0;
    for (int i = -100; i < 4000; ++i) {  // in the first hundred also early
      const Way way = memory.choose(kHere, seconds(kPlan, kWait));
      if (i >= 0 && way == Way::plan) lost += bad - kWait;
      if (i >= 0) took += way == Way::wait ? kWait : bad;
      memory.observe(kHere, way, way == Way::wait ? kWait : kPlan, way == Way::wait ? kWait : bad);
    }
    EXPECT_GT(lost, 0) << times_as_long;
    EXPECT_LE(lost, 0.005 * took) << times_as_long;
  }
}

// The stalls are over, but nothing reports that.
TEST(PlanMemory, FindsAWayAgainThatWasMuchWorseForAWhile) {
  PlanMemory memory;
  for (int i = 0; i < 5; ++i) memory.observe(kHere, Way::plan, kPlan, 3 * kWait);
  int steps = 0;
  for (int handed = 0; steps < 1000 && handed < 20; ++steps) {
    const Way way = memory.choose(kHere, seconds(kPlan, kWait));
    handed += way == Way::plan ? 1 : 0;
    memory.observe(kHere, way, way == Way::wait ? kWait : kPlan, way == Way::wait ? kWait : kPlan);
  }
  EXPECT_LT(steps, 100);
}

TEST(PlanMemory, TriesAWayThatHasBecomeSlowThreeTimesEarly) {
  const double bad = 5 * kWait;  // so much that regular tries are 800 steps apart
  PlanMemory memory;
  for (int i = 0; i < 5; ++i) memory.observe(kHere, Way::plan, kPlan, bad);
  std::vector<int> tried;
  for (int i = 0; i < 500; ++i) {
    const Way way = memory.choose(kHere, seconds(kPlan, kWait));
    if (way == Way::plan) tried.push_back(i);
    memory.observe(kHere, way, way == Way::wait ? kWait : kPlan, way == Way::wait ? kWait : bad);
  }
  EXPECT_EQ(tried, (std::vector<int>{8, 8 + 1 + 16, 25 + 1 + 32}));
}

TEST(PlanMemory, BelievesAfterARestartWhatItBelievedBefore) {
  const auto plan_after = [](std::initializer_list<double> ratios, int restarts, double then = 0) {
    PlanMemory memory;
    for (const double ratio : ratios) memory.observe(kHere, Way::plan, 1, ratio);
    for (int i = 0; i < restarts; ++i) {
      PlanMemory next;
      next.restore(memory.lessons());
      memory = next;
    }
    if (then > 0) memory.observe(kHere, Way::plan, 1, then);
    return memory.expected(kHere, {2, 1, kNone})[index_of(Way::plan)];
  };
  for (const int restarts : {0, 1, 2, 5}) {
    EXPECT_DOUBLE_EQ(plan_after({9}, restarts), 3) << restarts;
    EXPECT_DOUBLE_EQ(plan_after({1.1, 4}, restarts), 1.1) << restarts;
    EXPECT_DOUBLE_EQ(plan_after({3, 1, 2}, restarts), 2) << restarts;
  }
  EXPECT_DOUBLE_EQ(plan_after({1, 1, 1}, 1, 4), 1) << "one step that was held up";
}

TEST(PlanMemory, LeavesAllToWorkersOnlyWhereThatGainsOverThePlan) {
  EXPECT_EQ(PlanMemory().choose(kHere, seconds(1, 2, 1)), Way::plan);
  EXPECT_EQ(PlanMemory().choose(kHere, seconds(1, 2, 0.97)), Way::assist);
  EXPECT_EQ(PlanMemory().choose(kHere, seconds(kNone, 1, 0.97)), Way::assist);
  EXPECT_EQ(PlanMemory().choose(kHere, seconds(kNone, 1, 0.99)), Way::wait);
}

TEST(PlanMemory, LeavesAllToWorkersWherePlansWereSeenToLoseAgainstThat) {
  PlanMemory memory;
  const PlanSeconds predicted = seconds(kPlan, 2 * kPlan, 1.1 * kPlan);
  memory.observe(kHere, Way::plan, kPlan, 1.5 * kPlan);
  EXPECT_EQ(memory.choose(kHere, predicted), Way::plan) << "the other's costs are the same";
  for (int i = 0; i < 2; ++i) memory.observe(kHere, Way::assist, 1.1 * kPlan, 1.1 * kPlan);
  EXPECT_EQ(memory.choose(kHere, predicted), Way::assist);
  for (int i = 0; i < 3; ++i) memory.observe(kHere, Way::assist, 1.1 * kPlan, 2.2 * kPlan);
  EXPECT_EQ(memory.choose(kHere, predicted), Way::plan);
}

TEST(PlanMemory, TriesEachOtherWayOnceInAHundredSteps) {
  for (std::size_t best = 0; best < kNumPlanWays; ++best) {
    PlanSeconds predicted = {1.2, 1.3, 1.25};
    predicted[best] = 1;
    std::array<int, kNumPlanWays> expected = {10, 10, 10}, went{};
    expected[best] = 980;
    PlanMemory memory;
    for (int i = 0; i < 1000; ++i) {
      const Way way = memory.choose(kHere, predicted);
      const double took = predicted[static_cast<std::size_t>(way)];
      memory.observe(kHere, way, took, took);
      ++went[static_cast<std::size_t>(way)];
    }
    EXPECT_EQ(went, expected) << best;
  }
}

TEST(PlanMemory, IgnoresWhatIsNoMeasurement) {
  PlanMemory memory;
  memory.observe(kHere, Way::plan, 0, 1);
  memory.observe(kHere, Way::plan, 1e-3, std::nan(""));
  EXPECT_EQ(memory.choose(kHere, seconds(kPlan, kWait)), Way::plan);
}

TEST(PlanMemory, RemembersPlansThatLostByAnyFactor) {
  PlanMemory memory;
  memory.observe(kHere, Way::plan, 1e-3, 1);
  EXPECT_EQ(memory.choose(kHere, seconds(kPlan, kWait)), Way::wait);
}

PlanMemory restored(const PlanLessons& lessons) {
  PlanMemory memory;
  memory.restore(lessons);
  return memory;
}

TEST(PlanMemory, KnowsAfterARestartWhatItKnewBefore) {
  PlanMemory before;
  before.observe(kHere, Way::plan, kPlan, 13e-3);
  before.observe({2, 9, 2}, Way::plan, kPlan, kPlan);
  const PlanMemory memory = restored(before.lessons());
  EXPECT_EQ(memory.choose(kHere, seconds(kPlan, kWait)), Way::wait);
  EXPECT_EQ(memory.choose({2, 9, 2}, seconds(kPlan, kWait)), Way::plan);
}

// The other way is tried even if the engine restarts often.
TEST(PlanMemory, CountsOnTowardsTheNextTryAcrossRestarts) {
  PlanLessons kept;
  int tried = 0;
  for (int i = 0; i < 400; ++i) {
    PlanMemory memory = restored(kept);
    for (int n = 0; i == 0 && n < 3; ++n) memory.observe(kHere, Way::plan, kPlan, 12e-3);
    const Way way = memory.choose(kHere, seconds(kPlan, kWait));
    tried += way == Way::plan ? 1 : 0;
    memory.observe(kHere, way, way == Way::wait ? kWait : kPlan, way == Way::wait ? kWait : 12e-3);
    kept = memory.lessons();
  }
  EXPECT_EQ(tried, 4);
}

TEST(PlanMemory, BelievesTheNewMachineSoonerThanTheOldOne) {
  PlanMemory before;
  for (int i = 0; i < 50; ++i) before.observe(kHere, Way::plan, kPlan, 20e-3);
  PlanMemory memory = restored(before.lessons());
  EXPECT_EQ(memory.choose(kHere, seconds(kPlan, kWait)), Way::wait);
  memory.observe(kHere, Way::plan, kPlan, kPlan);
  EXPECT_EQ(memory.choose(kHere, seconds(kPlan, kWait)), Way::wait) << "it may have been luck";
  memory.observe(kHere, Way::plan, kPlan, kPlan);
  EXPECT_EQ(memory.choose(kHere, seconds(kPlan, kWait)), Way::plan);
}

TEST(PlanMemory, ForgetsWhatManyEnginesHaveNotSeen) {
  PlanMemory before;
  before.observe(kHere, Way::plan, kPlan, 20e-3);
  before.observe({2, 9, 2}, Way::plan, kPlan, 20e-3);
  PlanLessons kept = before.lessons();
  int starts = 0;
  for (; starts < 100 && kept.seen.size() == 2; ++starts) {
    PlanMemory memory = restored(kept);
    memory.observe({2, 9, 2}, Way::wait, kWait, kWait);
    kept = memory.lessons();
  }
  EXPECT_EQ(starts, 17);
  ASSERT_EQ(kept.seen.size(), 1U);
  EXPECT_EQ(kept.seen[0].situation, (PlanSituation{2, 9, 2})) << "it was seen each time";
}

TEST(PlanMemory, LeavesOutWhatNobodyCanHaveSeen) {
  PlanLessons lessons;
  lessons.seen.push_back(
      {kHere, {{{}, {std::nan(""), -1, 0, 1e9, HUGE_VAL}, {}}}, 4'000'000'000U, 0});
  lessons.seen.push_back({{2, 9, 2}, {{{1}, {2}, {2}}}, 4'000'000'000U, 4'000'000'000U});
  EXPECT_EQ(restored(lessons).lessons(), PlanLessons());
}

TEST(PlanMemory, KeepsSoManySituationsThatWereSeenLast) {
  PlanMemory memory;
  for (std::size_t i = 0; i < PlanLessons::kMostSeen + 9; ++i) {
    memory.observe({1, static_cast<std::uint8_t>(i % 256), static_cast<std::uint8_t>(i / 256)},
                   Way::wait, 1, 1);
    if (i == 200) memory.observe({1, 0, 0}, Way::wait, 1, 1);
  }
  const PlanLessons lessons = memory.lessons();
  ASSERT_EQ(lessons.seen.size(), PlanLessons::kMostSeen);
  const auto keeps = [&](PlanSituation situation) {
    return std::ranges::find(lessons.seen, situation, &PlanLessons::Seen::situation) !=
           lessons.seen.end();
  };
  EXPECT_TRUE(keeps({1, 0, 0}));
  for (std::uint8_t rows = 1; rows <= 9; ++rows) EXPECT_FALSE(keeps({1, rows, 0})) << int{rows};
  EXPECT_TRUE(keeps({1, 10, 0}));
}

}  // namespace
}  // namespace tandem
