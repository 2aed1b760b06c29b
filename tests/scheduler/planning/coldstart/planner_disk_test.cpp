// Plans for adapters that are still being read from a disk.
#include <gtest/gtest.h>

#include <algorithm>

#include "scheduler/planning/coldstart/handoff_timeline.h"
#include "scheduler/planning/coldstart/planner.h"
#include "tests/scheduler/planning/coldstart/plan_cases.h"

namespace tandem {
namespace {

// Neither workers nor the device can have a layer before it has been read.
TEST(Planner, NeverEndsALayerBeforeItHasBeenReadAndIsNoSoonerFromASlowerDisk) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    CostModel costs = random_costs(random);
    PlanRequest request = random_request(random, costs);
    for (ColdAdapter& adapter : request.adapters) {
      forget_times(adapter);
    }
    const double there = end_of(plan_handoff(costs, request));
    ColdAdapter& read = request.adapters.front();
    const double layer_s = random.real(1e-6, 1e-3);
    for (std::size_t l = 0; l < read.layers.size(); ++l) {
      read.host_arrives.push_back(static_cast<double>(l + 1) * layer_s);
    }
    const HandoffPlan plan = plan_handoff(costs, request);
    for (std::size_t l = 0; l < plan.layer_ends.size(); ++l) {
      if (read.layers[l].sites == 0) continue;
      EXPECT_GE(plan.layer_ends[l], read.host_arrives[l]);
    }
    EXPECT_GE(end_of(plan), there * 0.95);
  }
}

// Layers of 1 MB, each of which takes 105 us on a link of 10 GB/s.
ColdAdapter on_its_way(const CostModel& costs, double disk_gbps) {
  const LayerLoad layer = {.a_bytes = 500'000, .b_bytes = 500'000, .sites = 1};
  ColdAdapter adapter = cold(8, layer, 8);
  for (std::size_t l = 0; l < 8; ++l) {
    const auto megabytes = static_cast<double>(l) - 1;  // two layers have been read
    adapter.a_arrives.push_back(static_cast<double>(l) * costs.load_time(1'000'000, 1));
    adapter.host_arrives.push_back(megabytes * 1e-3 / disk_gbps);
  }
  adapter.b_arrives = adapter.a_arrives;
  return adapter;
}

TEST(PutOffUnread, HasLayersArriveWhenTheLinkCanBringThemOnceTheyHaveBeenRead) {
  CostModel costs;
  costs.link_bytes_per_s = 10e9;
  const double load_s = costs.load_time(1'000'000, 1);
  for (const double disk_gbps : {1.0, 2.5}) {
    ColdAdapter adapter = on_its_way(costs, disk_gbps);
    put_off_unread(costs, adapter);
    EXPECT_EQ(adapter.a_arrives, adapter.b_arrives);
    EXPECT_EQ(adapter.a_arrives[0], 0) << "it is there";
    EXPECT_NEAR(adapter.a_arrives[1], load_s, 1e-12) << "it has been read";
    for (std::size_t l = 2; l < 8; ++l) {
      EXPECT_NEAR(adapter.a_arrives[l], adapter.host_arrives[l] + load_s, 1e-12) << l;
    }
  }
}

TEST(PutOffUnread, ChangesNothingWhereTheDiskIsAheadOfTheLink) {
  CostModel costs;
  costs.link_bytes_per_s = 10e9;
  ColdAdapter adapter = on_its_way(costs, 20);
  const ColdAdapter before = adapter;
  put_off_unread(costs, adapter);
  for (std::size_t l = 0; l < 8; ++l) {
    EXPECT_NEAR(adapter.a_arrives[l], before.a_arrives[l], 1e-12) << l;
  }
}

TEST(PutOffUnread, KeepsTheOrderOfPartsOneAfterAnother) {
  CostModel costs;
  costs.link_bytes_per_s = 10e9;
  ColdAdapter adapter = on_its_way(costs, 1);
  for (std::size_t l = 0; l < 8; ++l) {  // B of all layers, then A
    adapter.b_arrives[l] = static_cast<double>(l + 1) * costs.load_time(500'000, 1);
    adapter.a_arrives[l] = static_cast<double>(l + 9) * costs.load_time(500'000, 1);
  }
  put_off_unread(costs, adapter);
  const double part_s = costs.load_time(500'000, 1);
  EXPECT_NEAR(adapter.b_arrives[7], adapter.host_arrives[7] + part_s, 1e-12);
  for (std::size_t l = 0; l < 8; ++l) {
    EXPECT_NEAR(adapter.a_arrives[l], adapter.b_arrives[7] + static_cast<double>(l + 1) * part_s,
                1e-12)
        << l;
  }
}

// Makes a request for an adapter that is read at this speed from now on.
PlanRequest read_at(double disk_gbps) {
  PlanRequest request = burst(1, 8, qkv_7b(64));
  ColdAdapter& adapter = request.adapters[0];
  const LayerLoad& layer = adapter.layers[0];
  const double layer_s = static_cast<double>(layer.a_bytes + layer.b_bytes) / disk_gbps / 1e9;
  for (std::size_t l = 0; l < adapter.layers.size(); ++l) {
    adapter.host_arrives.push_back(static_cast<double>(l + 1) * layer_s);
  }
  return request;
}

// Behind a slow disk workers have no advantage over the link.
TEST(Planner, HandsOverWhatAFastDiskBringsAndWaitsForASlowOne) {
  const CostModel costs = sketch(10);
  const auto gain = [&](const PlanRequest& request) {
    return 1 - end_of(plan_handoff(costs, request)) / end_of(plan_waiting(costs, request));
  };
  EXPECT_GT(gain(read_at(100)), 0.3);
  EXPECT_LT(gain(read_at(1)), 0.02);
  double before = 1;
  for (const double disk_gbps : {100.0, 20.0, 10.0, 5.0, 2.0, 1.0}) {
    EXPECT_LE(gain(read_at(disk_gbps)), before + 0.01) << disk_gbps;
    before = gain(read_at(disk_gbps));
  }
}

TEST(Planner, HasWorkersBeginOnWhatHasBeenReadWhileTheRestIsRead) {
  const CostModel costs = sketch(1);
  PlanRequest request = burst(1, 8, qkv_7b(64));
  const HandoffPlan whole = plan_handoff(costs, request);
  ASSERT_EQ(whole.choices[0][15], LayerChoice::cpu);
  request.adapters[0].host_arrives.assign(32, 50e-3);
  std::fill_n(request.adapters[0].host_arrives.begin(), 16, 0.0);
  const HandoffPlan plan = plan_handoff(costs, request);
  EXPECT_EQ(plan.choices[0][0], LayerChoice::cpu);
  EXPECT_NEAR(plan.layer_ends[15], whole.layer_ends[15], 0.1 * whole.layer_ends[15]);
  EXPECT_GT(plan.layer_ends[16], 50e-3);
  EXPECT_LT(end_of(plan), end_of(plan_waiting(costs, request)));
}

TEST(Planner, LoadsAnAdapterThatIsThereBeforeOneThatIsStillRead) {
  const CostModel costs = sketch(10);
  PlanRequest request = burst(2, 8, qkv_7b(64));
  request.adapters[0].host_arrives.assign(32, 20e-3);
  const HandoffPlan plan = plan_handoff(costs, request);
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(plan.order[i].adapter, 1) << i;
}

}  // namespace
}  // namespace tandem
