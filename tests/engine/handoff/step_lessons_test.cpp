#include "engine/handoff/step_lessons.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/ids/ticket.h"
#include "engine/profile/layer_load.h"
#include "tests/support/small_model.h"

namespace tandem::test {
namespace {

constexpr std::size_t kLayers = 32;
constexpr std::uint64_t kWorkers = 0xfff;

constexpr std::size_t kNumSites = 4;

// A step whose layers the device offered at given times, with all groups only at qkv.
struct Measured {
  HandoffStep step;
  std::vector<std::uint64_t> times;
  std::vector<std::uint32_t> tickets, timed_out;

  // `take`: seconds from each layer's offer to the next one's.
  Measured(const Adapter& adapter, std::vector<std::uint32_t> rows, Ticket ticket,
           const std::vector<double>& take) {
    step.layers.resize(take.size());
    step.num_sites = kNumSites;
    times.resize(take.size() * kNumSites);
    tickets.resize(times.size() * kMaxColdGroups);
    std::uint64_t now = 12'345'678'901;
    for (std::size_t l = 0; l < take.size(); ++l) {
      SiteHandoff& site = step.layers[l].sites[0];
      (ticket == Ticket::cpu_xa ? site.xa_groups : site.cpu_groups) = (1U << rows.size()) - 1;
      times[offer_at(kNumSites, l, 0)] = now;
      now += static_cast<std::uint64_t>(take[l] * 1e9);
      for (std::size_t g = 0; g < rows.size(); ++g) set_ticket(l, g, ticket);
    }
    for (const std::uint32_t count : rows) {
      HandoffStep::Group& group = step.groups.emplace_back();
      group.job.adapter = &adapter;
      group.job.rows = count;
      group.job.workers = kWorkers;
      step.rows += static_cast<std::int32_t>(count);
    }
    step.num_offers = static_cast<std::int32_t>(take.size());
    timed_out.assign(rows.size(), 0);
    step.times = times.data();
    step.tickets = tickets.data();
    step.timed_out = timed_out.data();
  }

  void set_ticket(std::size_t layer, std::size_t group, Ticket ticket) {
    tickets[offer_at(kNumSites, layer, 0) * kMaxColdGroups + group] =
        static_cast<std::uint32_t>(ticket);
  }
};

class StepLessons : public ::testing::Test {
 protected:
  StepLessons() {
    adapter_ = make_dummy_adapter(config_, DType::bf16, 32, {"q_proj", "k_proj", "v_proj"}, 1);
  }

  // The stall that a layer's groups cause for the step according to `costs`.
  double stall(const CostModel& costs, const std::vector<std::uint32_t>& rows, bool xa) const {
    const std::vector<LayerLoad> loads = layer_loads(config_, adapter_);
    HandoverWork work;
    std::int32_t sum = 0;
    for (const std::uint32_t count : rows) {
      work.add(costs.handover(loads[0], static_cast<std::int32_t>(count), 12, xa));
      sum += static_cast<std::int32_t>(count);
    }
    return costs.stall_in(work, costs.layer_time(sum));
  }

  // Learns twice, because a duration far above the belief counts only when it is seen again.
  void learn_twice(const CostModel& costs, const HandoffStep& step, CostLearner& learner) const {
    for (int i = 0; i < 2; ++i) learn_stalls(config_, costs, step, learner);
  }

  const ModelSpec config_ = small_model(kLayers);
  Adapter adapter_;
};

TEST_F(StepLessons, TellsHowLongEachLayerTookFromOfferToOffer) {
  std::vector<double> take(kLayers, 200e-6);
  take[7] = 900e-6;
  Measured measured(adapter_, {8}, Ticket::cpu, take);
  measured.step.layers[20].sites[0] = {};  // a layer that offers nothing
  const std::vector<double> seen = seen_layers(measured.step);
  ASSERT_EQ(seen.size(), kLayers);
  for (std::size_t l = 0; l < kLayers; ++l) {
    if (l == 19 || l == 20 || l + 1 == kLayers) {
      EXPECT_LT(seen[l], 0) << "layer " << l;
    } else {
      EXPECT_NEAR(seen[l], take[l], 2e-9) << "layer " << l;
    }
  }
}

TEST_F(StepLessons, SayWhoHadEachLayer) {
  std::vector<double> take(kLayers, 200e-6);
  take[7] = 600e-6;
  Measured measured(adapter_, {8, 3}, Ticket::cpu, take);
  measured.step.planned_s = 5e-3;
  measured.step.planned_layers.assign(kLayers, 150e-6);
  for (std::size_t l = 20; l < kLayers; ++l) {
    measured.set_ticket(l, 0, Ticket::gpu);
  }
  measured.set_ticket(0, 1, Ticket{77});  // a value that no device writes
  const std::string text = describe_step(measured.step, 6.2e-3);
  EXPECT_NE(text.find("8 rows c20 g12"), std::string::npos) << text;
  EXPECT_NE(text.find("3 rows v1 c31"), std::string::npos) << text;
  EXPECT_NE(text.find("planned 5.000 ms, took 6.200"), std::string::npos) << text;
  EXPECT_NE(text.find("of it layer 7 0.450 longer"), std::string::npos) << text;
}

// However wrong the costs are, the planner soon knows how long layers take: most within a tenth.
// Steps that look alike to the costs but differ in truth share a factor.
TEST_F(StepLessons, HealCostsThatAreOffByAFactorOfThree) {
  std::vector<double> errors;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const auto off = [&] {
      return std::pow(3.0, std::uniform_real_distribution<double>(-1, 1)(random));
    };
    const CostModel truth;
    CostModel costs = truth;
    costs.trip_s *= off();
    costs.worker_flops *= off();
    costs.workers_bytes_per_s *= off();
    costs.worker_job_s *= off();
    costs.in_step *= off();
    costs.xa_extra_s *= off();
    CostLearner learner;
    std::uniform_real_distribution<double> noise(0.97, 1.03);
    const std::vector<std::vector<std::uint32_t>> kinds = {{8}, {64}, {8, 8, 8, 8}, {64, 64, 64}};
    for (int i = 0; i < 60; ++i) {
      const auto& rows = kinds[static_cast<std::size_t>(i) % kinds.size()];
      const bool xa = i % 8 >= 4;
      std::vector<double> take;
      std::int32_t sum = 0;
      for (const std::uint32_t count : rows) sum += static_cast<std::int32_t>(count);
      const double layer_s = truth.layer_time(sum);
      for (std::size_t l = 0; l < kLayers; ++l) {
        take.push_back(layer_s + stall(truth, rows, xa) * noise(random));
      }
      take[3] += 20e-3;  // a delayed worker
      Measured measured(adapter_, rows, xa ? Ticket::cpu_xa : Ticket::cpu, take);
      measured.step.layer_s = layer_s;
      measured.step.planned_layers.assign(kLayers, layer_s + stall(costs, rows, xa));
      learn_stalls(config_, costs, measured.step, learner);
      costs.factors = learner.factors();
    }
    for (const auto& rows : kinds) {
      const double layer_s = truth.layer_time(static_cast<std::int32_t>(rows.size()) *
                                              static_cast<std::int32_t>(rows[0]));
      for (const bool xa : {false, true}) {
        errors.push_back(
            std::abs((layer_s + stall(costs, rows, xa)) / (layer_s + stall(truth, rows, xa)) - 1));
        EXPECT_LT(errors.back(), 0.4) << rows.size() << " x " << rows[0] << (xa ? ", xA" : "");
      }
    }
  }
  std::sort(errors.begin(), errors.end());
  EXPECT_LT(errors[errors.size() / 2], 0.05);
  EXPECT_LT(errors[errors.size() * 9 / 10], 0.15);
}

// The costs of layers are wrong, too: stalls alone cannot show it if a layer is believed to take
// longer than it really does with its stall. Steps take `head_s` besides their layers.
TEST_F(StepLessons, HealFiguresOfWhichAllAreOffByAFactorOfThree) {
  const CostModel truth;
  for (const double off : {3.0, 1 / 3.0}) {
    for (const std::size_t device_has : {std::size_t{0}, std::size_t{4}, std::size_t{10}}) {
      for (const double head_s : {0.0, 1e-3}) {
        SCOPED_TRACE(::testing::Message() << off << " times, the device has " << device_has
                                          << ", beside them " << head_s);
        CostModel costs = truth.slowed(off);
        CostLearner learner;
        const double layer_s = truth.layer_time(8), stalled = layer_s + stall(truth, {8}, false);
        const double step_s = head_s + layer_s * static_cast<double>(device_has) +
                              stalled * static_cast<double>(kLayers - device_has);
        int layers_were_off = 0;
        for (int i = 0; i < 40; ++i) {
          std::vector<double> take(kLayers, stalled);
          std::fill_n(take.begin() + 4, device_has, layer_s);
          take[3] += 20e-3;  // a wait
          Measured measured(adapter_, {8}, Ticket::cpu, take);
          for (std::size_t l = 4; l < 4 + device_has; ++l) measured.set_ticket(l, 0, Ticket::gpu);
          measured.step.layer_s = costs.layer_time(8);
          if (learn_layers(costs, measured.step, step_s + 20e-3, learner)) {
            layers_were_off = i + 1;
          } else {
            learn_stalls(config_, costs, measured.step, learner);
          }
          costs.factors = learner.factors();
        }
        EXPECT_LT(layers_were_off, 8) << "or workers would never be learnt about";
        const double on_workers = costs.layer_time(8) + stall(costs, {8}, false);
        const double planned = costs.layer_time(8) * static_cast<double>(device_has) +
                               on_workers * static_cast<double>(kLayers - device_has);
        EXPECT_NEAR(planned / step_s, 1, 0.2);
      }
    }
  }
}

// The second step was planned before the first one's lesson, so its lessons about workers begin
// after that.
TEST_F(StepLessons, OfASecondStepThatWasPlannedWithTheSameFiguresTeachNothingOfWorkers) {
  const CostModel truth;
  CostModel costs = truth.slowed(3);
  CostLearner learner;
  const double stalled = truth.layer_time(8) + stall(truth, {8}, false);
  Measured measured(adapter_, {8}, Ticket::cpu, std::vector<double>(kLayers, stalled));
  measured.step.layer_s = costs.layer_time(8);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(learn_layers(costs, measured.step, stalled * kLayers, learner)) << i;
    costs.factors = learner.factors();
  }
  EXPECT_EQ(learner.observed(), 1U);
}

// Time spent waiting is not a layer's own time.
TEST_F(StepLessons, OfLayersThatMayWaitSayNothingOfHowLongLayersAreAtLeast) {
  const CostModel costs;
  for (const bool late : {true, false}) {
    CostLearner learner;
    const double layer_s = costs.layer_time(8);
    Measured measured(adapter_, {8}, Ticket::gpu, std::vector<double>(kLayers, 2 * layer_s));
    measured.step.layer_s = layer_s;
    for (std::int64_t l = 0; l < std::int64_t{kLayers}; ++l) {
      const double begins = static_cast<double>(l) * layer_s;
      measured.step.waits.push_back({0, l, PieceKind::b, late ? begins + 1e-5 : begins - 1e-5});
    }
    EXPECT_EQ(learn_layers(costs, measured.step, 2 * layer_s * kLayers, learner), !late);
    EXPECT_NEAR(learner.factors().layers.of(8), late ? 1 : 2, 1e-3);
  }
}

TEST_F(StepLessons, OfAStepThatHandedNothingOverAreThatLayersTookNoLongerThanAllOfIt) {
  const CostModel costs;
  const double step_s = costs.layer_time(8) * kLayers;
  Measured measured(adapter_, {}, Ticket::gpu, std::vector<double>(kLayers, 0));
  measured.step.rows = 8;
  measured.step.layer_s = costs.layer_time(8);
  CostLearner learner;
  EXPECT_FALSE(learn_layers(costs, measured.step, 2 * step_s, learner)) << "it may have waited";
  EXPECT_FALSE(learn_layers(costs, measured.step, 0.9 * step_s, learner)) << "about right";
  EXPECT_TRUE(learn_layers(costs, measured.step, 0.5 * step_s, learner));
  EXPECT_NEAR(learner.factors().layers.of(8), 0.5, 1e-9);
}

// Workers may have waited for the disk in these layers, so their times say nothing about costs.
TEST_F(StepLessons, LearnNothingFromLayersThatWereStillBeingRead) {
  const CostModel costs;
  for (const std::size_t first_unread : {std::size_t{6}, kLayers}) {
    CostLearner learner;
    std::vector<double> take(kLayers, costs.layer_time(8) + 2 * stall(costs, {8}, false));
    for (std::size_t l = 6; l < kLayers; ++l) take[l] += 3e-3;
    Measured measured(adapter_, {8}, Ticket::cpu, take);
    measured.step.layer_s = costs.layer_time(8);
    measured.step.planned_layers.assign(kLayers, 5e-4);
    measured.step.unread.assign(kLayers, false);
    for (std::size_t l = first_unread; l < kLayers; ++l) measured.step.unread[l] = true;
    learn_twice(costs, measured.step, learner);
    CostModel learnt = costs;
    learnt.factors = learner.factors();
    const double ratio = stall(learnt, {8}, false) / stall(costs, {8}, false);
    if (first_unread < kLayers) {
      EXPECT_NEAR(ratio, 2, 1e-3);
    } else {
      EXPECT_GT(ratio, 10) << "what nobody says";
    }
  }
}

// Otherwise waiting would look like work, and the more it was believed, the longer steps would
// wait. Loads may be late by a quarter; if they were expected in half the time that the step took
// to reach them, the delay came from the workers.
TEST_F(StepLessons, LearnNothingFromLayersBeforeOneThatMayWaitForALoad) {
  const auto learnt = [&](double take_s, double arrive_s, double after_begin_s) {
    CostLearner learner;
    const CostModel costs;
    Measured measured(adapter_, {8}, Ticket::cpu_xa, std::vector<double>(kLayers, take_s));
    measured.step.layer_s = costs.layer_time(8);
    measured.step.starts_in = 1e-3;
    measured.step.planned_layers.assign(kLayers, take_s);
    for (std::int64_t l = 0; l < std::int64_t{kLayers}; ++l) {
      measured.step.waits.push_back(
          {0, l, PieceKind::b,
           measured.step.starts_in + static_cast<double>(l) * arrive_s + after_begin_s});
    }
    learn_twice(costs, measured.step, learner);
    return learner.observed();
  };
  const double layer_s = CostModel().layer_time(8);
  EXPECT_EQ(learnt(5e-4, layer_s, -1e-5), 1U) << "there before any step could come to it";
  EXPECT_EQ(learnt(5e-4, 4e-4, 1e-5), 0U);
  EXPECT_EQ(learnt(5e-4, 5e-4, 0), 0U);
  EXPECT_EQ(learnt(5e-4, 2e-4, 1e-5), 1U);
}

}  // namespace
}  // namespace tandem::test
