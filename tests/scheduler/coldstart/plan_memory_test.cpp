#include "scheduler/coldstart/plan_memory.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tandem {
namespace {

using Way = PlanMemory::Way;

constexpr PlanSituation kHere{1, 9, 2};
constexpr double kPlan = 9e-3, kWait = 10.9e-3;  // predicted

TEST(PlanMemory, TrustsAPlanThatItKnowsNothingAbout) {
  EXPECT_EQ(PlanMemory().choose(kHere, kPlan, kWait), Way::hand_over);
}

TEST(PlanMemory, WaitsWherePlansWereSeenToLose) {
  PlanMemory memory;
  memory.observe(kHere, Way::hand_over, kPlan, 13e-3);
  EXPECT_EQ(memory.choose(kHere, kPlan, kWait), Way::wait);
  EXPECT_EQ(memory.choose({1, 8, 2}, kPlan, kWait), Way::hand_over) << "another situation";
  EXPECT_EQ(memory.choose(kHere, kPlan, 40e-3), Way::hand_over) << "waiting would be worse still";
}

TEST(PlanMemory, GoesBackToThePlanWhereWaitingTurnsOutWorse) {
  PlanMemory memory;
  memory.observe(kHere, Way::hand_over, kPlan, 13e-3);
  for (int i = 0; i < 3; ++i) memory.observe(kHere, Way::wait, kWait, 15e-3);
  EXPECT_EQ(memory.choose(kHere, kPlan, kWait), Way::hand_over);
}

TEST(PlanMemory, WantsAGainForTheCoresThatAPlanTakes) {
  PlanMemory memory;
  memory.observe(kHere, Way::hand_over, 1, 1);
  EXPECT_EQ(memory.choose(kHere, 0.99, 1), Way::wait);
  EXPECT_EQ(memory.choose(kHere, 0.97, 1), Way::hand_over);
}

TEST(PlanMemory, WaitsWhereAPlanPromisesNextToNothing) {
  EXPECT_EQ(PlanMemory().choose(kHere, 0.99, 1), Way::wait);
  EXPECT_EQ(PlanMemory().choose(kHere, 0.97, 1), Way::hand_over);
}

// A worker that was held up once changes nothing.
TEST(PlanMemory, ForgetsWhatHappenedOnce) {
  PlanMemory memory;
  for (int i = 0; i < 20; ++i) {
    memory.observe(kHere, Way::hand_over, kPlan, i == 17 ? 80e-3 : kPlan);
  }
  EXPECT_EQ(memory.choose(kHere, kPlan, kWait), Way::hand_over);
}

TEST(PlanMemory, TriesTheOtherWayOnceInAHundredSteps) {
  PlanMemory memory;
  memory.observe(kHere, Way::hand_over, kPlan, 12e-3);
  int tried = 0;
  for (int i = 0; i < 1000; ++i) {
    const Way way = memory.choose(kHere, kPlan, kWait);
    EXPECT_EQ(memory.choose(kHere, kPlan, kWait), way) << "asked again, the same";
    tried += way == Way::hand_over ? 1 : 0;
    memory.observe(kHere, way, way == Way::wait ? kWait : kPlan, way == Way::wait ? kWait : 12e-3);
  }
  EXPECT_EQ(tried, 10);
}

// So a plan whose costs have healed, or whose machine has become quieter, is found again.
TEST(PlanMemory, FindsAWayAgainThatHasBecomeTheBetterOne) {
  PlanMemory memory;
  for (int i = 0; i < 5; ++i) memory.observe(kHere, Way::hand_over, kPlan, 13e-3);
  int steps = 0;
  for (; steps < 1000; ++steps) {
    const Way way = memory.choose(kHere, kPlan, kWait);
    memory.observe(kHere, way, way == Way::wait ? kWait : kPlan, way == Way::wait ? kWait : kPlan);
    if (steps > 500 && way == Way::wait) break;
  }
  EXPECT_EQ(5 + steps, 599) << "but for the hundredth, which tries waiting";
}

TEST(PlanMemory, NeverTriesWhatIsMuchWorse) {
  PlanMemory memory;
  memory.observe(kHere, Way::hand_over, kPlan, 20e-3);
  for (int i = 0; i < 500; ++i) {
    EXPECT_EQ(memory.choose(kHere, kPlan, kWait), Way::wait);
    memory.observe(kHere, Way::wait, kWait, kWait);
  }
}

TEST(PlanMemory, IgnoresWhatIsNoMeasurement) {
  PlanMemory memory;
  memory.observe(kHere, Way::hand_over, 0, 1);
  memory.observe(kHere, Way::hand_over, 1e-3, std::nan(""));
  EXPECT_EQ(memory.choose(kHere, kPlan, kWait), Way::hand_over);
}

TEST(PlanMemory, RemembersPlansThatLostByAnyFactor) {
  PlanMemory memory;
  memory.observe(kHere, Way::hand_over, 1e-3, 1);
  EXPECT_EQ(memory.choose(kHere, kPlan, kWait), Way::wait);
}

struct Case {
  std::int32_t rows = 256;
  int adapters = 1;
  double gbps = 10;
};

// A load that has been ordered `ago` seconds ago in the order of a plan, or that is to be.
PlanSituation situation(const Case& of, bool ordered, double ago = 0) {
  CostModel costs;
  costs.link_bytes_per_s = of.gbps * 1e9;
  PlanRequest request;
  request.rows = of.rows;
  request.workers = 12;
  for (int i = 0; i < of.adapters; ++i) {
    ColdAdapter adapter;
    adapter.rows = of.rows / of.adapters;
    adapter.layers.assign(32, {.a_bytes = 1 << 20, .b_bytes = 1 << 21, .sites = 1});
    request.adapters.push_back(adapter);
  }
  if (ordered) {
    const HandoffPlan plan = plan_handoff(costs, request);
    double link = -ago;
    for (ColdAdapter& adapter : request.adapters) {
      adapter.a_arrives.assign(32, 0);
      adapter.b_arrives.assign(32, 0);
    }
    for (const LoadPiece& piece : plan.order) {
      ColdAdapter& adapter = request.adapters[static_cast<std::size_t>(piece.adapter)];
      const auto l = static_cast<std::size_t>(piece.layer);
      const bool a = piece.kind != PieceKind::b, b = piece.kind != PieceKind::a;
      link += costs.load_time((a ? 1 << 20 : 0) + (b ? 1 << 21 : 0), 1);
      if (a) adapter.a_arrives[l] = link;
      if (b) adapter.b_arrives[l] = link;
    }
  }
  return PlanSituation::of(costs, request);
}

TEST(PlanSituation, CountsWhatIsStillRead) {
  CostModel costs;
  PlanRequest request;
  request.rows = 64;
  ColdAdapter& adapter = request.adapters.emplace_back();
  adapter.rows = 64;
  adapter.layers.assign(32, {.a_bytes = 1 << 20, .b_bytes = 1 << 20, .sites = 1});
  const PlanSituation whole = PlanSituation::of(costs, request);
  adapter.host_arrives.assign(32, 50e-3);
  EXPECT_GT(PlanSituation::of(costs, request).link, whole.link);
}

// In whatever order the layers travel: else what a step taught would be known of no admission.
TEST(PlanSituation, IsThatOfTheAdmissionWhenTheStepIsPlanned) {
  for (const Case& each : {Case{256, 1, 10}, Case{64, 8, 10}, Case{8, 1, 25}, Case{2000, 8, 55}}) {
    EXPECT_EQ(situation(each, true, 200e-6), situation(each, false)) << each.rows;
  }
}

TEST(PlanSituation, TellsStepsApartThatAreNotAlike) {
  EXPECT_NE(situation({.rows = 64}, false), situation({}, false));
  EXPECT_NE(situation({.adapters = 4}, false), situation({}, false));
  EXPECT_NE(situation({.gbps = 55}, false), situation({}, false));
  EXPECT_EQ(situation({.rows = 300, .gbps = 10.5}, false), situation({}, false));
}

}  // namespace
}  // namespace tandem
