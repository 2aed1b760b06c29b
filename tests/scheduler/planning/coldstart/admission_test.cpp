#include "scheduler/planning/coldstart/admission.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <tuple>

#include "tests/scheduler/planning/coldstart/plan_cases.h"

namespace tandem {
namespace {

// An adapter that is loading: its layers arrive one after another, the first at `first`.
ColdAdapter arriving(std::int32_t rows, double first, double each) {
  ColdAdapter adapter = cold(rows, qkv_7b(64));
  for (int l = 0; l < 32; ++l) adapter.a_arrives.push_back(first + l * each);
  adapter.b_arrives = adapter.a_arrives;
  return adapter;
}

double mean_end(const AdmissionPlan& plan) {
  return std::accumulate(plan.ends.begin(), plan.ends.end(), 0.0) /
         static_cast<double>(plan.ends.size());
}

void expect_whole(const PlanRequest& request, const AdmissionPlan& plan) {
  ASSERT_EQ(plan.turns.size(), request.adapters.size());
  ASSERT_EQ(plan.ends.size(), request.adapters.size());
  EXPECT_EQ(plan.turns.front(), 0);
  for (std::size_t i = 1; i < plan.turns.size(); ++i) {
    const std::int32_t step = plan.turns[i] - plan.turns[i - 1];
    EXPECT_TRUE(step == 0 || step == 1) << "adapter " << i;
    EXPECT_GE(plan.ends[i], plan.ends[i - 1]);
  }
  // Every part that is not loading yet is sent once, in the order of the steps.
  std::set<std::tuple<std::int32_t, std::int32_t, bool>> parts;
  std::int32_t turn = 0;
  for (const LoadPiece& piece : plan.order) {
    const auto adapter = static_cast<std::size_t>(piece.adapter);
    ASSERT_LT(adapter, request.adapters.size());
    EXPECT_TRUE(request.adapters[adapter].a_arrives.empty());
    EXPECT_GE(plan.turns[adapter], turn);
    turn = plan.turns[adapter];
    if (piece.kind != PieceKind::b) {
      EXPECT_TRUE(parts.emplace(piece.adapter, piece.layer, true).second);
    }
    if (piece.kind != PieceKind::a) {
      EXPECT_TRUE(parts.emplace(piece.adapter, piece.layer, false).second);
    }
  }
  const auto to_load =
      std::count_if(request.adapters.begin(), request.adapters.end(),
                    [](const ColdAdapter& each) { return each.a_arrives.empty(); });
  EXPECT_EQ(parts.size(), static_cast<std::size_t>(to_load) * 32 * 2);
}

TEST(Admission, SaysWhetherWorkersWhoSleepMayBeOfUseYet) {
  const CostModel costs = sketch(10);
  PlanRequest request = burst(1, 8, qkv_7b(64));
  const auto says = [&](bool hands_over, bool may_hand_over, const PlanSteps& plan) {
    const AdmissionPlan made = plan_admission(costs, request, plan);
    EXPECT_EQ(made.hands_over, hands_over);
    EXPECT_EQ(made.may_hand_over, may_hand_over);
    EXPECT_EQ(made.steps.empty(), !hands_over) << "who waits for sleepers chooses when it begins";
  };
  says(true, false, plan_as_predicted);
  request.workers_awake_in = 20e-3;  // the link has brought everything by then
  says(false, true, plan_as_predicted);
  says(false, false, [](const CostModel& model, const PlanRequest& step) {
    StepChoice planned = plan_as_predicted(model, step);
    planned.is_worth_planning = false;
    return planned;
  });
}

TEST(Admission, PlansOneAdapterAsThePlannerDoes) {
  const CostModel costs;
  const PlanRequest request = burst(1, 25, qkv_7b(64));
  const AdmissionPlan plan = plan_admission(costs, request);
  expect_whole(request, plan);
  EXPECT_EQ(plan.ends.front(), plan_handoff(costs, request).layer_ends.back());
  EXPECT_TRUE(plan_admission(costs, PlanRequest()).turns.empty());
}

TEST(Admission, TellsWhetherTheNextStepHandsAnythingOver) {
  const CostModel costs;
  PlanRequest request = burst(1, 8, qkv_7b(64));
  request.link_busy_for = 1;  // nothing arrives in time
  EXPECT_TRUE(plan_admission(costs, request).hands_over);
  request.workers = 0;
  EXPECT_FALSE(plan_admission(costs, request).hands_over);
}

TEST(Admission, DoesNotLetTheFirstOfABurstWaitForTheLast) {
  // On the native link eight loads take 15 ms and a step 4, so about two loads fit behind each
  // step.
  const CostModel costs;
  const PlanRequest request = burst(8, 25, qkv_7b(64));
  const AdmissionPlan plan = plan_admission(costs, request);
  expect_whole(request, plan);
  EXPECT_GE(plan.turns.back(), 1);
  EXPECT_LT(mean_end(plan), 0.85 * plan_handoff(costs, request).layer_ends.back());
}

TEST(Admission, LetsAllBeginAtOnceWhereWeightsCostNothing) {
  CostModel costs;
  costs.link_bytes_per_s = 1e15;
  costs.copy_s = 0;
  const AdmissionPlan plan = plan_admission(costs, burst(8, 25, qkv_7b(64)));
  EXPECT_EQ(plan.turns, std::vector<std::int32_t>(8, 0));
}

// The expected duration of such steps counts more than the predicted one.
TEST(Admission, GoesByWhatIsExpectedOfEachStep) {
  const CostModel costs;
  const PlanRequest request = burst(8, 25, qkv_7b(64));
  const auto with_all_at_once = [&](double over_predicted) {
    return plan_admission(costs, request, [&](const CostModel& model, const PlanRequest& step) {
      StepChoice planned = plan_as_predicted(model, step);
      if (step.adapters.size() == 8) planned.ends *= over_predicted;
      return planned;
    });
  };
  const double predicted = plan_handoff(costs, request).layer_ends.back();
  const AdmissionPlan sooner = with_all_at_once(0.3);
  EXPECT_EQ(sooner.turns, std::vector<std::int32_t>(8, 0));
  EXPECT_DOUBLE_EQ(mean_end(sooner), 0.3 * predicted);
  const AdmissionPlan later = with_all_at_once(3);
  expect_whole(request, later);
  EXPECT_GT(later.turns.back(), 0);
}

TEST(Admission, WantsAGainForMoreSteps) {
  CostModel costs;
  const PlanRequest request = burst(2, 25, qkv_7b(64));
  const auto turns = [&](double second_ends) {
    const AdmissionPlan plan =
        plan_admission(costs, request, [&](const CostModel& model, const PlanRequest& step) {
          StepChoice planned = plan_as_predicted(model, step);
          planned.ends = step.adapters.size() == 2 ? 10e-3
                         : step.starts_in > 0      ? second_ends
                                                   : 7e-3;
          return planned;
        });
    return plan.turns.back() + 1;
  };
  EXPECT_EQ(turns(12.5e-3), 1) << "9.75 ms for 10";
  EXPECT_EQ(turns(11.5e-3), 2) << "9.25 ms";
}

TEST(Admission, IsNeverWorseThanAllAtOnceNorOutOfOrder) {
  constexpr unsigned kSeed = 20261122;
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  const auto below = [&](int end) {
    return static_cast<int>(random() % static_cast<unsigned>(end));
  };
  for (int round = 0; round < 60; ++round) {
    CostModel costs;
    costs.link_bytes_per_s = (1 + below(60)) * 1e9;
    PlanRequest request;
    request.workers = below(3) * 6;
    request.rows = below(40);
    request.starts_in = below(8) * 1e-3;
    const int under_way = below(4);
    for (int i = 0; i < under_way; ++i) {
      request.adapters.push_back(arriving(1 + below(60), i * 5e-3, 150e-6));
    }
    request.link_busy_for = under_way * 5e-3;
    const int loads = 1 + below(8);
    for (int i = 0; i < loads; ++i) request.adapters.push_back(cold(1 + below(60), qkv_7b(64)));
    for (const ColdAdapter& adapter : request.adapters) request.rows += adapter.rows;
    const AdmissionPlan plan = plan_admission(costs, request);
    expect_whole(request, plan);
    ASSERT_EQ(plan.steps.size(), static_cast<std::size_t>(plan.turns.back()) + 1);
    for (std::size_t i = static_cast<std::size_t>(under_way); i < plan.turns.size(); ++i) {
      const auto& cold = plan.steps[static_cast<std::size_t>(plan.turns[i])].adapters;
      const auto times = std::ranges::count(cold, static_cast<std::int32_t>(i));
      EXPECT_LE(times, 1) << "adapter " << i;
      // A step that starts later may find that the adapter has arrived.
      const bool starts_at_once = plan.turns[i] == 0 && request.starts_in == 0;
      EXPECT_TRUE(!starts_at_once || times == 1) << "adapter " << i;
    }
    EXPECT_LE(mean_end(plan), plan_handoff(costs, request).layer_ends.back() * (1 + 1e-9));
  }
}

}  // namespace
}  // namespace tandem
