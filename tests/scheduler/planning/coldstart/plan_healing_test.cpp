// Workers stall for some steps. The tests check plans, learned costs and remembered plans together:
// no kind of step stays slow after the stalls are over.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "scheduler/planning/coldstart/plan_memory.h"
#include "scheduler/planning/coldstart/step_choice.h"
#include "scheduler/planning/costs/cost_learner.h"
#include "tests/scheduler/planning/coldstart/plan_cases.h"

namespace tandem {
namespace {

constexpr std::size_t kLayers = 32;
constexpr std::int32_t kWorkers = 12;

struct Kind {  // kind of burst
  std::int32_t adapters, rows, rank;
  double link_gbps;
};

std::vector<Kind> kinds() {
  std::vector<Kind> all;
  for (const double gbps : {5.0, 10.0, 25.0}) {
    for (const std::int32_t adapters : {1, 4, 8}) {
      for (const std::int32_t rows : {8, 64}) {
        for (const std::int32_t rank : {16, 64}) all.push_back({adapters, rows, rank, gbps});
      }
    }
  }
  return all;
}

CostModel machine(const Kind& kind) {
  CostModel costs;
  costs.link_bytes_per_s = kind.link_gbps * 1e9;
  return costs;
}

struct Step {
  double seconds = 0;
  struct Layer {
    HandoverWork work;
    double stall_s = 0;
    bool may_wait = false;  // according to the plan
  };
  std::array<Layer, kLayers> layers;
};

// Simulates a step in which workers take `held_up` times as long as `truth` says.
Step run(const CostModel& truth, const PlanRequest& request, const HandoffPlan& plan,
         double held_up) {
  Step step;
  const double layer_s = truth.layer_time(request.rows);
  double stolen = 0;
  for (std::size_t l = 0; l < kLayers; ++l) {
    Step::Layer& layer = step.layers[l];
    for (std::size_t i = 0; i < request.adapters.size(); ++i) {
      const ColdAdapter& adapter = request.adapters[i];
      const LayerChoice choice = plan.choices[i][l];
      if (choice == LayerChoice::cpu) continue;
      const double b = adapter.b_arrives[l];
      const double there = choice == LayerChoice::cpu_xa ? b : std::max(adapter.a_arrives[l], b);
      layer.may_wait |= there > static_cast<double>(l) * layer_s;
      step.seconds = std::max(step.seconds, there + stolen);
    }
    for (std::size_t i = 0; i < request.adapters.size(); ++i) {
      const ColdAdapter& adapter = request.adapters[i];
      const bool is_late =
          std::max(adapter.a_arrives[l], adapter.b_arrives[l]) + stolen > step.seconds;
      if (plan.choices[i][l] == LayerChoice::wait || !is_late) continue;
      layer.work.add(truth.handover(adapter.layers[l], adapter.rows, kWorkers,
                                    plan.choices[i][l] == LayerChoice::cpu_xa));
    }
    if (layer.work.sites > 0) layer.stall_s = held_up * truth.stall_in(layer.work, layer_s);
    step.seconds += layer_s + layer.stall_s;
    stolen += layer.work.link_s;
  }
  return step;
}

// An engine that knows the machine without stalls and learns as real engines do (engine/handoff).
class LearningEngine {
 public:
  explicit LearningEngine(const CostModel& figures) : costs_(figures) {
    for (std::size_t kind = 0; kind < kNumStallKinds; ++kind) {
      for (double s = CostFactors::kShortestStall_s; s < 20e-3; s *= 2) {
        learner_.observe_stall(static_cast<StallKind>(kind), s, s);
      }
    }
    learner_.be_optimistic();
  }

  double step(const Kind& kind, double held_up) {
    PlanRequest request = burst(kind.adapters, kind.rows, qkv_7b(kind.rank));
    put_on_their_way(machine(kind), choose(request).plan.order, 0, request.adapters);
    const StepChoice choice = choose(request);
    const Step step = run(machine(kind), request, choice.plan, held_up);
    if (hands_over(choice.plan)) learn(step, costs_.layer_time(request.rows));
    memory_.observe(PlanSituation::of(costs_, request),
                    hands_over(choice.plan) ? choice.chosen.way : PlanWay::wait,
                    step_seconds(request, choice.plan), step.seconds);
    costs_.factors = learner_.factors();
    return step.seconds;
  }

 private:
  StepChoice choose(const PlanRequest& request) const {
    return choose_step(costs_, request, memory_);
  }

  // Learns from a layer only if the next one must not wait, or its end is not visible.
  void learn(const Step& step, double layer_s) {
    std::array<std::vector<std::pair<double, double>>, kNumStallKinds> seen;  // ratio, model_s
    for (std::size_t l = 0; l + 1 < kLayers; ++l) {
      const Step::Layer& layer = step.layers[l];
      if (layer.work.sites == 0 || step.layers[l + 1].may_wait) continue;
      const double model_s = costs_.modelled_stall(layer.work, layer_s);
      seen[static_cast<std::size_t>(layer.work.kind())].emplace_back(layer.stall_s / model_s,
                                                                     model_s);
    }
    for (std::size_t kind = 0; kind < kNumStallKinds; ++kind) {
      if (seen[kind].size() < 3) continue;
      std::ranges::sort(seen[kind]);
      const auto [ratio, model_s] = seen[kind][seen[kind].size() / 2];
      learner_.observe_stall(static_cast<StallKind>(kind), model_s, ratio * model_s);
    }
  }

  CostModel costs_;
  CostLearner learner_;
  PlanMemory memory_;
};

// Returns the time of the best of the three ways if workers do not stall.
double best_of(const Kind& kind) {
  const CostModel truth = machine(kind);
  double best = std::numeric_limits<double>::infinity();
  for (const auto plan_by : {plan_waiting, plan_handoff, plan_assisting}) {
    PlanRequest request = burst(kind.adapters, kind.rows, qkv_7b(kind.rank));
    const HandoffPlan plan = plan_by(truth, request);
    put_on_their_way(truth, plan.order, 0, request.adapters);
    best = std::min(best, run(truth, request, plan, 1).seconds);
  }
  return best;
}

// By early tries: at the rate of the regular ones, half of the kinds of steps would still be slow.
TEST(PlanHealing, FindsBackToWorkersThatWereHeldUp) {
  constexpr int kQuiet = 100, kLast = 20;
  for (const auto& [before, held] : {std::pair{0, 2}, {10, 3}}) {
    for (const double held_up : {3.0, 6.0}) {
      int stuck = 0;
      for (const Kind& kind : kinds()) {
        LearningEngine engine(machine(kind));
        for (int i = 0; i < before; ++i) engine.step(kind, 1);
        for (int i = 0; i < held; ++i) engine.step(kind, held_up);
        const double best = best_of(kind);
        int bad = 0;
        for (int i = 0; i < kQuiet; ++i) {
          const double ratio = engine.step(kind, 1) / best;
          if (i >= kQuiet - kLast && ratio > 1.1) ++bad;
        }
        if (bad > kLast / 2) ++stuck;
      }
      EXPECT_LE(stuck, static_cast<int>(kinds().size()) / 12)
          << held << " steps took " << held_up << " times as long";
    }
  }
}

}  // namespace
}  // namespace tandem
