#include "scheduler/planning/coldstart/planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <set>

#include "scheduler/planning/coldstart/handoff_timeline.h"
#include "tests/scheduler/planning/coldstart/plan_cases.h"

namespace tandem {
namespace {

// A plan with one choice for all layers, loaded in layer order with the adapters interleaved.
HandoffPlan all(const CostModel& costs, const PlanRequest& request, LayerChoice choice) {
  HandoffPlan plan;
  std::size_t layers = 0;
  for (const ColdAdapter& adapter : request.adapters) {
    layers = adapter.layers.size();
    plan.choices.emplace_back(layers, choice);
  }
  for (std::size_t l = 0; l < layers; ++l) {
    for (std::size_t i = 0; i < request.adapters.size(); ++i) {
      if (!request.adapters[i].a_arrives.empty()) continue;
      plan.order.push_back(
          {static_cast<std::int32_t>(i), static_cast<std::int32_t>(l), PieceKind::layer});
    }
  }
  predict(costs, request, plan);
  return plan;
}

double over_resident(const HandoffPlan& plan) {
  return end_of(plan) / plan.resident_ends - 1;
}

struct SketchCase {
  std::int32_t adapters, tokens;
  double link_gbps;
  double pipelined, best;  // measured, relative to the resident step
  bool cpu_wins;
};

TEST(Planner, PicksTheSourceThatWonInTheSketchOfTheDesign) {
  const SketchCase cases[] = {
      {1, 1, 55, 0.05, 0.05, false},   {1, 8, 55, 0.05, 0.05, false},
      {1, 32, 55, 0.04, 0.04, false},  {1, 64, 55, 0.04, 0.04, false},
      {1, 128, 55, 0.03, 0.03, false}, {1, 1, 10, 1.55, 0.05, true},
      {1, 8, 10, 1.54, 0.15, true},    {1, 32, 10, 1.51, 0.33, true},
      {1, 64, 10, 1.43, 0.50, true},   {1, 128, 10, 1.32, 0.82, true},
      {4, 8, 25, 2.18, 0.71, true},    {4, 8, 10, 6.82, 1.19, true},
      {8, 8, 25, 3.88, 1.36, true},    {8, 8, 10, 11.03, 1.98, true},
      {8, 64, 25, 1.74, 1.31, true},   {8, 64, 10, 5.74, 1.85, true},
  };
  for (const SketchCase& c : cases) {
    const CostModel costs = sketch(c.link_gbps);
    const PlanRequest request = burst(c.adapters, c.tokens, qkv_7b(64));
    const HandoffPlan wait = all(costs, request, LayerChoice::wait);
    const HandoffPlan plan = plan_handoff(costs, request);
    const std::string name = fmt::format(
        "{} x {} at {} GB/s: predicted {:+.0f} % pipelined, {:+.0f} % planned", c.adapters,
        c.tokens, c.link_gbps, over_resident(wait) * 100, over_resident(plan) * 100);
    std::printf("%s; measured %+.0f, %+.0f\n", name.c_str(), c.pipelined * 100, c.best * 100);
    if (c.cpu_wins) {
      EXPECT_LT(over_resident(plan), 0.8 * over_resident(wait)) << name;
    } else {
      EXPECT_GT(over_resident(plan), over_resident(wait) - 0.03) << name;
    }
  }
}

void expect_complete_order(const PlanRequest& request, const HandoffPlan& plan) {
  std::set<std::pair<std::int32_t, std::int32_t>> a, b;
  for (const LoadPiece& piece : plan.order) {
    ASSERT_LT(static_cast<std::size_t>(piece.adapter), request.adapters.size());
    const bool new_a = piece.kind == PieceKind::b || a.insert({piece.adapter, piece.layer}).second;
    const bool new_b = piece.kind == PieceKind::a || b.insert({piece.adapter, piece.layer}).second;
    EXPECT_TRUE(new_a && new_b) << piece.adapter << ", " << piece.layer;
  }
  std::size_t expected = 0;
  for (const ColdAdapter& adapter : request.adapters) {
    if (adapter.a_arrives.empty()) expected += adapter.layers.size();
  }
  EXPECT_EQ(a.size(), expected);
  EXPECT_EQ(b.size(), expected);
  for (const auto& [adapter, layer] : a) {
    EXPECT_TRUE(request.adapters[static_cast<std::size_t>(adapter)].a_arrives.empty());
  }
}

// Share of the resident step up to which the planner accepts a wait without searching further.
constexpr double kNotWorthIt = 0.06;

TEST(Planner, IsNeverBehindWaitingOrTheCpuAloneWhateverIsAsked) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    CostModel costs = random_costs(random);
    const PlanRequest request = random_request(random, costs);
    HandoffPlan plan = plan_handoff(costs, request);
    ASSERT_EQ(plan.layer_ends.size(), request.adapters.front().layers.size());
    expect_complete_order(request, plan);
    const std::vector<double> said = plan.layer_ends;
    predict(costs, request, plan);
    EXPECT_EQ(plan.layer_ends, said);
    EXPECT_TRUE(std::is_sorted(said.begin(), said.end()));
    EXPECT_LE(plan.resident_ends, said.back() * (1 + 1e-9));
    const double rounding = 1 + 1e-9;
    EXPECT_LE(said.back(), end_of(all(costs, request, LayerChoice::wait)) * rounding);
    const double cpu = end_of(all(costs, request, LayerChoice::cpu));
    const double near = kNotWorthIt * (plan.resident_ends - std::max(0.0, request.starts_in));
    EXPECT_LE(said.back(), std::max(cpu, plan.resident_ends + near) * rounding);
    EXPECT_FALSE(explain(costs, request, plan).empty());
  }
}

// Tests one adapter that is not loading and has something in each layer; with several, the trial
// considers fewer ways to wait in a layer.
TEST(HandoffTimeline, TriesShapesByWhatTheyComeTo) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    CostModel costs = random_costs(random);
    PlanRequest request = random_request(random, costs);
    request.adapters.resize(1);
    ColdAdapter& adapter = request.adapters[0];
    forget_times(adapter);
    for (LayerLoad& layer : adapter.layers) {
      if (layer.sites == 0) layer = qkv_7b(8);
    }
    HandoffTimeline timeline(costs, request);
    const std::int32_t layers = timeline.num_layers();
    const auto count = static_cast<std::int32_t>(timeline.to_load().size());
    for (int i = 0; i < 8; ++i) {
      LoadShape shape{random.whole(timeline.least_lead(), count), random.whole(0, layers),
                      random.whole(0, layers)};
      if (shape.b_first_to <= shape.whole_from) shape.b_first_to = 0;
      if (shape.lead == count) shape = {count, 0, 0};
      const double tried = timeline.end_of(shape, std::numeric_limits<double>::infinity());
      timeline.load(timeline.order_of(shape));
      std::vector<double> layer_ends;
      EXPECT_NEAR(timeline.run(timeline.choose(), layer_ends), tried, 1e-9 * tried);
    }
  }
}

TEST(Planner, HandsOverOnlyWhatMayBe) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    CostModel costs = random_costs(random);
    const PlanRequest request = random_request(random, costs);
    const HandoffPlan plan = plan_handoff(costs, request);
    for (std::size_t l = 0; l < plan.layer_ends.size(); ++l) {
      std::int32_t rows = 0;
      for (std::size_t i = 0; i < request.adapters.size(); ++i) {
        if (plan.choices[i][l] == LayerChoice::wait) continue;
        EXPECT_TRUE(request.adapters[i].may_hand_over);
        EXPECT_GT(request.workers, 0);
        rows += request.adapters[i].rows;
      }
      EXPECT_LE(rows, request.max_cpu_rows);
    }
  }
}

TEST(Planner, IsNotSlowerOnAFasterLinkOrWithMoreWorkers) {
  double worst = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    CostModel costs = random_costs(random);
    PlanRequest request = random_request(random, costs);
    for (ColdAdapter& adapter : request.adapters) {  // their times are those of one link
      adapter.a_arrives.clear();
      adapter.b_arrives.clear();
    }
    const double before = end_of(plan_handoff(costs, request));
    costs.link_bytes_per_s *= random.real(1.05, 4);
    const double faster = end_of(plan_handoff(costs, request));
    request.workers += random.whole(1, 20);
    const double more = end_of(plan_handoff(costs, request));
    worst = std::max({worst, faster / before - 1, more / faster - 1});
    // The search is heuristic, so it may miss an earlier result by a little.
    EXPECT_LE(faster, before * 1.05);
    EXPECT_LE(more, faster * 1.05);
  }
  std::printf("worst: %+.2f %%\n", worst * 100);
}

TEST(Planner, NeedsNoCpuWhenTheLoadHasALeadOverTheStep) {
  const CostModel costs = sketch(55);
  PlanRequest request = burst(1, 64, qkv_7b(64));
  request.starts_in = 0.5e-3;
  const HandoffPlan plan = plan_handoff(costs, request);
  EXPECT_NEAR(end_of(plan), plan.resident_ends, 1e-9);
  for (const LayerChoice choice : plan.choices[0]) EXPECT_EQ(choice, LayerChoice::wait);
}

// If workers take k layers, the link has to bring 32 - k before the last layer begins. The stalls
// delay that layer, and the answers delay the link: k (load + stall - answers) >= the missing time.
TEST(Planner, LeavesToWorkersWhatTheLeadDoesNotCover) {
  CostModel costs;
  costs.link_bytes_per_s = 10e9;
  const LayerLoad layer = qkv_7b(64);
  const double load = costs.load_time(layer.a_bytes + layer.b_bytes, layer.copies);
  costs.xa_extra_s = 1;  // makes cpu_xa unattractive
  for (const std::int32_t rows : {1, 16, 64}) {
    for (const double lead_ms : {0.0, 1.0, 2.0, 5.0, 10.0}) {
      SCOPED_TRACE(fmt::format("{} rows, a lead of {} ms", rows, lead_ms));
      PlanRequest request = burst(1, rows, layer);
      const double stall = costs.cpu_time(layer, rows, request.workers, false);
      const double answers = costs.handover(layer, rows, request.workers, false).link_s;
      const double missing = 32 * load - lead_ms * 1e-3 - 31 * costs.layer_time(rows);
      const double needed = std::max(0.0, missing / (load + stall - answers));
      const auto by_workers = [](const HandoffPlan& plan) {
        const auto& choices = plan.choices[0];
        return 32.0 -
               static_cast<double>(std::count(choices.begin(), choices.end(), LayerChoice::wait));
      };
      request.starts_in = lead_ms * 1e-3;
      const HandoffPlan ahead = plan_handoff(costs, request);
      EXPECT_NEAR(by_workers(ahead), needed, 1);
      // The step is planned when the lead is over, with its load as far as predicted.
      put_on_their_way(costs, ahead.order, lead_ms * 1e-3, request.adapters);
      request.starts_in = 0;
      const HandoffPlan then = plan_handoff(costs, request);
      EXPECT_NEAR(by_workers(then), needed, 1);
      EXPECT_NEAR(end_of(then) + lead_ms * 1e-3, end_of(ahead), 0.1e-3);
    }
  }
}

// This holds for any costs of workers, and for loads that have begun.
TEST(Planner, EndsNoLayerBeforeItsWeightsCanBeWhereTheyAreComputedFrom) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    CostModel costs = random_costs(random);
    PlanRequest request = random_request(random, costs);
    for (FactorTable& stalls : costs.factors.stalls) stalls.values.fill(random.real(0.05, 4));
    for (ColdAdapter& adapter : request.adapters) {
      if (adapter.a_arrives.empty() || random.chance(0.3)) continue;
      const double layer_s = random.real(1e-6, 1e-3);
      const std::int32_t there = random.whole(-3, static_cast<std::int32_t>(adapter.layers.size()));
      for (std::size_t l = 0; l < adapter.layers.size(); ++l) {
        const bool is_there = std::min(adapter.a_arrives[l], adapter.b_arrives[l]) <= 0;
        adapter.host_arrives.push_back(is_there ? 0 : (static_cast<double>(l) - there) * layer_s);
      }
      put_off_unread(costs, adapter);
    }
    const HandoffPlan plan = plan_handoff(costs, request);
    for (std::size_t i = 0; i < request.adapters.size(); ++i) {
      const ColdAdapter& adapter = request.adapters[i];
      for (std::size_t l = 0; l < plan.layer_ends.size(); ++l) {
        if (adapter.layers[l].sites == 0) continue;
        if (!adapter.host_arrives.empty()) {
          EXPECT_GE(plan.layer_ends[l], adapter.host_arrives[l]) << i << ", " << l;
        }
        if (adapter.a_arrives.empty() || plan.choices[i][l] != LayerChoice::wait) continue;
        EXPECT_GE(plan.layer_ends[l], std::max(adapter.a_arrives[l], adapter.b_arrives[l]));
      }
    }
  }
}

// Either the step waits for the workers while the link brings later layers, or the link brings the
// first layers.
TEST(Planner, CountsWithTheTimeInWhichWorkersWake) {
  CostModel costs;
  costs.link_bytes_per_s = 10e9;
  PlanRequest request = burst(1, 8, qkv_7b(64));
  const auto by_workers = [](const HandoffPlan& plan) {
    const auto& choices = plan.choices[0];
    return 32 - std::count(choices.begin(), choices.end(), LayerChoice::wait);
  };
  const double awake = end_of(plan_handoff(costs, request));
  double before = awake;
  for (const double awake_in : {0.2e-3, 1e-3, 3e-3}) {
    SCOPED_TRACE(awake_in);
    request.workers_awake_in = awake_in;
    const HandoffPlan plan = plan_handoff(costs, request);
    EXPECT_GT(by_workers(plan), 0);
    for (std::size_t l = 0; l < 32; ++l) {
      if (plan.choices[0][l] == LayerChoice::wait) continue;
      EXPECT_GE(plan.layer_ends[l], awake_in);
    }
    EXPECT_GE(end_of(plan), before);
    EXPECT_LE(end_of(plan), awake + awake_in);
    before = end_of(plan);
  }
  EXPECT_EQ(plan_handoff(costs, request).choices[0][0], LayerChoice::wait);
  request.workers_awake_in = 20e-3;  // the link has brought everything by then
  EXPECT_EQ(by_workers(plan_handoff(costs, request)), 0);
}

// Layers that take twice as long hide twice as much of the link's time.
TEST(Planner, LeavesLessToWorkersOfAStepThatTakesLonger) {
  CostModel costs;
  costs.link_bytes_per_s = 10e9;
  const PlanRequest request = burst(1, 1, qkv_7b(64));
  std::ptrdiff_t before = 33;
  for (const double factor : {0.5, 1.0, 1.5, 2.0}) {
    costs.factors.layers.values.fill(factor);
    const HandoffPlan plan = plan_handoff(costs, request);
    EXPECT_NEAR(plan.resident_ends, 32 * costs.modelled_layer(1) * factor, 1e-9);
    const auto& choices = plan.choices[0];
    const auto by_workers = std::count(choices.begin(), choices.end(), LayerChoice::cpu);
    EXPECT_LE(by_workers, before - 4) << factor;
    before = by_workers;
  }
}

TEST(Planner, WaitsForLoadsOnTheirWayOnlyWhereThatIsSooner) {
  const CostModel costs = sketch(10);
  PlanRequest request = burst(1, 1, qkv_7b(64));
  ColdAdapter& adapter = request.adapters[0];
  for (std::size_t l = 0; l < 32; ++l) {  // half of the layers are present, then a long gap
    adapter.a_arrives.push_back(l < 16 ? -1 : 1);
    adapter.b_arrives.push_back(l < 16 ? -1 : 1);
  }
  const HandoffPlan plan = plan_handoff(costs, request);
  EXPECT_TRUE(plan.order.empty());
  for (std::size_t l = 0; l < 32; ++l) {
    EXPECT_EQ(plan.choices[0][l], l < 16 ? LayerChoice::wait : LayerChoice::cpu) << l;
  }
}

TEST(Planner, LetsWorkersDoXaWhereOnlyBHasCome) {
  const CostModel costs = sketch(10);
  PlanRequest request = burst(1, 16, qkv_7b(64));
  request.adapters[0].a_arrives.assign(32, 1.0);
  request.adapters[0].b_arrives.assign(32, 0.0);
  const HandoffPlan plan = plan_handoff(costs, request);
  for (const LayerChoice choice : plan.choices[0]) EXPECT_EQ(choice, LayerChoice::cpu_xa);
}

TEST(Planner, LoadsBFirstOnlyWhereThatPaysForWhatItTakesTheDevice) {
  CostModel costs;
  costs.link_bytes_per_s = 10e9;
  const PlanRequest request = burst(1, 64, qkv_7b(64));
  const LayerLoad& layer = request.adapters[0].layers[0];
  std::ptrdiff_t before = 33;
  double end_before = 0;
  for (const double extra_s : {0.0, 44e-6, 1e-3}) {
    costs.xa_extra_s = 0;
    const double free_s = costs.cpu_time(layer, 64, request.workers, true);
    costs.xa_extra_s = extra_s;
    EXPECT_NEAR(costs.cpu_time(layer, 64, request.workers, true), free_s + extra_s, 1e-12);
    const HandoffPlan plan = plan_handoff(costs, request);
    const auto& choices = plan.choices[0];
    const auto b_first = std::count(choices.begin(), choices.end(), LayerChoice::cpu_xa);
    EXPECT_LE(b_first, before) << extra_s;
    EXPECT_GE(end_of(plan), end_before);
    before = b_first;
    end_before = end_of(plan);
    if (extra_s == 0) {
      EXPECT_GT(b_first, 4);
    }
  }
  EXPECT_EQ(before, 0);
}

TEST(Planner, WaitsForAllWithoutWorkers) {
  const CostModel costs = sketch(10);
  PlanRequest request = burst(4, 16, qkv_7b(64));
  request.workers = 0;
  const HandoffPlan plan = plan_handoff(costs, request);
  for (const auto& choices : plan.choices) {
    for (const LayerChoice choice : choices) EXPECT_EQ(choice, LayerChoice::wait);
  }
  ASSERT_EQ(plan.order.size(), 4u * 32);
  for (std::size_t p = 0; p < plan.order.size(); ++p) {  // interleaved layers
    EXPECT_EQ(plan.order[p].layer, static_cast<std::int32_t>(p / 4));
  }
}

TEST(Planner, LoadsTheLongPromptFirstAndComputesTheShortOnes) {
  const CostModel costs = sketch(25);
  PlanRequest request = burst(8, 4, qkv_7b(64));
  request.adapters[5].rows = 400;
  request.rows = 428;
  const HandoffPlan plan = plan_handoff(costs, request);
  EXPECT_EQ(plan.order.front().adapter, 5);
  EXPECT_LT(end_of(plan), 0.7 * end_of(all(costs, request, LayerChoice::wait)));
  EXPECT_LT(end_of(plan), 0.9 * end_of(all(costs, request, LayerChoice::cpu)));
}

TEST(Planner, HasNothingToSayWithoutColdAdapters) {
  PlanRequest request;
  request.rows = 4;
  request.workers = 2;
  const HandoffPlan plan = plan_handoff({}, request);
  EXPECT_TRUE(plan.order.empty());
  EXPECT_TRUE(plan.layer_ends.empty());
  EXPECT_NE(explain({}, request, plan), "");
}

TEST(Planner, ExplainsEveryLayer) {
  const CostModel costs = sketch(10);
  const PlanRequest request = burst(3, 64, qkv_7b(64));
  const std::string text = explain(costs, request, plan_handoff(costs, request));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 34) << text;
  EXPECT_NE(text.find("with all adapters resident"), std::string::npos);
}

TEST(CostModel, TakesMoreRowsWithMoreWorkersAndSlowerLinks) {
  std::int32_t before = 0;
  for (const std::int32_t workers : {0, 1, 2, 4, 8, 16}) {
    const std::int32_t rows = sketch(10).cpu_rows(qkv_7b(64), workers, 4096);
    EXPECT_GE(rows, before);
    before = rows;
  }
  EXPECT_GT(before, 32);
  EXPECT_LT(sketch(55).cpu_rows(qkv_7b(64), 16, 4096), before);
}

}  // namespace
}  // namespace tandem
