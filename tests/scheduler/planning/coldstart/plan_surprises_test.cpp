// The expectations of a PlanMemory for steps that it has never seen.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "scheduler/planning/coldstart/plan_memory.h"

namespace tandem {
namespace {

constexpr PlanSituation kHere{1, 9, 2};

PlanSeconds seconds(double plan, double wait) {
  return {wait, plan, std::numeric_limits<double>::infinity()};
}

// Steps that are new, each of its own kind; none of them is similar to kHere.
class UnknownSteps {
 public:
  explicit UnknownSteps(PlanMemory& memory) : memory_(&memory) {}
  void late_by(double seconds, PlanWay way, std::uint8_t drowsy = 0, int steps = 3) {
    for (int i = 0; i < steps; ++i) {
      ++next_.adapters;
      next_.drowsy = drowsy;
      memory_->observe(next_, way, 10, 10 + seconds);
    }
  }

 private:
  PlanMemory* memory_;
  PlanSituation next_{100, 1, 1};
};

double expected_plan_s(const PlanMemory& memory, double plan, PlanSituation where = kHere) {
  return memory.expected(where, seconds(plan, 14))[index_of(PlanWay::plan)];
}

// Other programs use the machine's cores, and each kind of step would have to find that out by
// itself.
TEST(PlanSurprises, ExpectsWhereItKnowsNothingThatWorkersAreAsLateAsElsewhere) {
  PlanMemory memory;
  UnknownSteps steps(memory);
  steps.late_by(4, PlanWay::plan, 0, 2);
  EXPECT_DOUBLE_EQ(expected_plan_s(memory, 10), 10) << "two are no trend";
  steps.late_by(4, PlanWay::assist, 0, 1);
  EXPECT_DOUBLE_EQ(expected_plan_s(memory, 10), 14);
  EXPECT_DOUBLE_EQ(expected_plan_s(memory, 3), 6) << "a short step has less time to be held up";
  EXPECT_EQ(memory.choose(kHere, seconds(10, 13)), PlanWay::wait);
  EXPECT_EQ(memory.choose(kHere, seconds(10, 20)), PlanWay::plan);
  memory.observe(kHere, PlanWay::plan, 10, 10);
  EXPECT_DOUBLE_EQ(expected_plan_s(memory, 10), 10) << "here it knows better";
}

TEST(PlanSurprises, CountsAsLateOnlyWhatWaitingIsNot) {
  PlanMemory memory;
  UnknownSteps steps(memory);
  steps.late_by(4, PlanWay::plan);
  steps.late_by(1, PlanWay::wait);
  EXPECT_DOUBLE_EQ(expected_plan_s(memory, 10), 13);
  EXPECT_DOUBLE_EQ(memory.expected(kHere, seconds(10, 14))[index_of(PlanWay::wait)], 14);
  steps.late_by(8, PlanWay::wait, 0, 9);
  EXPECT_DOUBLE_EQ(expected_plan_s(memory, 10), 10) << "that speaks for no plan";
}

TEST(PlanSurprises, TellsWorkersThatSleptFromThoseThatWereAwakeForLong) {
  constexpr PlanSituation kDrowsy{kHere.adapters, kHere.rows, kHere.link, kHere.workers, 1};
  PlanMemory memory;
  UnknownSteps steps(memory);
  steps.late_by(4, PlanWay::plan, 1);
  EXPECT_DOUBLE_EQ(expected_plan_s(memory, 10, kDrowsy), 14);
  EXPECT_DOUBLE_EQ(expected_plan_s(memory, 10, kHere), 10);
  for (int i = 0; i < 3; ++i) memory.observe(kDrowsy, PlanWay::plan, 10, 12);
  EXPECT_DOUBLE_EQ(expected_plan_s(memory, 10, kDrowsy), 12);
  EXPECT_DOUBLE_EQ(expected_plan_s(memory, 10, kHere), 10);
}

// A wrong plan for one known kind of step is no reason to doubt other kinds.
TEST(PlanSurprises, IsNotSurprisedByWhatItKnows) {
  PlanMemory memory;
  for (int i = 0; i < 20; ++i) memory.observe({50, 1, 1}, PlanWay::plan, 10, 14);
  EXPECT_DOUBLE_EQ(expected_plan_s(memory, 10), 10);
}

TEST(PlanSurprises, FindsOutSoonWhetherWhatItSawElsewhereGoesForHere) {
  PlanMemory memory;
  UnknownSteps(memory).late_by(4, PlanWay::plan);
  const PlanSeconds predicted = seconds(10, 13);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(memory.choose(kHere, predicted), PlanWay::wait) << i;
    memory.observe(kHere, PlanWay::wait, 13, 13);
  }
  EXPECT_EQ(memory.choose(kHere, predicted), PlanWay::plan);
  memory.observe(kHere, PlanWay::plan, 10, 10);
  EXPECT_EQ(memory.choose(kHere, predicted), PlanWay::plan);
}

TEST(PlanSurprises, ForgetsHowLateWorkersWereWhenNoneWasSeenForLong) {
  PlanMemory memory;
  UnknownSteps(memory).late_by(4, PlanWay::plan);
  for (std::uint64_t i = 0; i < PlanMemory::kForgotten; ++i) {
    memory.observe({50, 1, 1}, PlanWay::wait, 1, 1);
  }
  EXPECT_DOUBLE_EQ(expected_plan_s(memory, 10), 14);
  memory.observe({50, 1, 1}, PlanWay::wait, 1, 1);
  EXPECT_DOUBLE_EQ(expected_plan_s(memory, 10), 10);
  memory.observe({60, 1, 1}, PlanWay::plan, 10, 14);
  EXPECT_DOUBLE_EQ(expected_plan_s(memory, 10), 10) << "one more brings none of the others back";
}

}  // namespace
}  // namespace tandem
