#include "tools/setup/core_setup.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/ids/ticket.h"
#include "tests/cpu_lora/topology/imagined_machine.h"
#include "tests/support/test_seed.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

EngineSettings settings_of(const PinPlan& plan, EngineSettings settings) {
  settings.cpus = format_id_list(plan.engine_cpus);
  settings.worker_cpus = format_id_list(plan.worker_cpus());
  settings.cpu_workers = static_cast<std::int64_t>(plan.worker_cpus().size());
  return settings;
}

std::vector<std::vector<int>> workers_of(const PinPlan& plan) {
  std::vector<std::vector<int>> workers;
  for (const PinPlan::Workers& group : plan.workers) workers.push_back(group.cpus);
  std::ranges::sort(workers);
  return workers;
}

// Makes any machine: up to four nodes, some without memory or cores, several kinds of cores, GPUs
// at known or unknown nodes, cpus that this process may not use, and a quota.
MachineMap draw_machine(std::mt19937_64& random) {
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  std::vector<NodeShape> shapes;
  for (int n = pick(1, 4); n > 0; --n) {
    shapes.push_back({pick(0, 40), pick(1, 2), pick(0, 5) == 0 ? 0U : 1U << 30});
  }
  shapes.front().cores += 1;
  shapes.back().memory = 1U << 30;
  std::vector<int> gpu_nodes;
  for (int gpu = pick(1, 8); gpu > 0; --gpu) {
    gpu_nodes.push_back(pick(0, static_cast<int>(shapes.size()) - 1));
  }
  MachineMap map = build(shapes, gpu_nodes);
  for (MachineGpu& gpu : map.gpus) {
    if (pick(0, 9) == 0) gpu.nodes.clear();
  }
  for (std::size_t i = 1; i < map.cores.size(); ++i) {
    for (MachineThread& thread : map.cores[i].threads) {
      if (pick(0, 9) == 0) thread.use = CpuUse::outside_cpuset;
    }
  }
  if (pick(0, 2) == 0) {
    for (MachineCore& core : map.cores) core.speed_rank = pick(0, 2);
  }
  if (pick(0, 2) == 0) {
    map.quota_cpus = pick(1, 200) / 10.0;
    map.quota_source = "cpu.max";
  }
  return map;
}

TEST(CoreSetup, TakesWhatPinPlanWritesWithoutAWarningAndComesToTheSameAlone) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 2000; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const MachineMap map = draw_machine(random);
    const bool on_gpu = random() % 4 != 0;
    EngineSettings settings;
    const auto num_gpus = static_cast<std::int64_t>(map.gpus.size());
    settings.tensor_parallel =
        on_gpu ? 1 + static_cast<std::int64_t>(random() % map.gpus.size()) : 1;
    const auto first = static_cast<std::int64_t>(
        random() % static_cast<std::uint64_t>(num_gpus - settings.tensor_parallel + 1));
    settings.gpus = fmt::format("{}-{}", first, first + settings.tensor_parallel - 1);
    PinOptions pin;  // the options of `pin plan`
    pin.host_device = !on_gpu;
    for (std::int64_t i = 0; on_gpu && i < settings.tensor_parallel; ++i) {
      pin.gpus.push_back(static_cast<int>(first + i));
    }
    const Result<PinPlan> planned = plan_pinning(map, pin);
    ASSERT_TRUE(planned.ok()) << planned.status().message();
    const Result<PinPlan> alone = plan_cores(settings, on_gpu, map);
    ASSERT_TRUE(alone.ok()) << alone.status().message();
    EXPECT_EQ(alone->engine_cpus, planned->engine_cpus);
    EXPECT_EQ(workers_of(*alone), workers_of(*planned));

    const Result<PinPlan> named = plan_cores(settings_of(*planned, settings), on_gpu, map);
    ASSERT_TRUE(named.ok()) << named.status().message();
    EXPECT_THAT(named->notes, IsEmpty());
    EXPECT_EQ(named->engine_cpus, planned->engine_cpus);
    EXPECT_EQ(workers_of(*named), workers_of(*planned));

    EXPECT_LE(planned->workers.size(), std::size_t{kMaxMailboxes});
    for (const PinPlan::Workers& group : planned->workers) {
      EXPECT_LE(group.cpus.size(), std::size_t{kMostWorkersOfANode} * pin.gpus.size());
    }
    const std::size_t threads = planned->engine_cpus.size() + planned->worker_cpus().size();
    EXPECT_LE(static_cast<double>(threads), std::max(1.0, map.quota_cpus.value_or(1e9)));
  }
}

TEST(CoreSetup, ChoosesTheEnginesCoresAroundNamedWorkersAndTheOtherWayRound) {
  const MachineMap map = build({{4}});
  EngineSettings settings;
  settings.worker_cpus = "1,2";
  Result<PinPlan> plan = plan_cores(settings, false, map);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_THAT(plan->engine_cpus, ElementsAre(0, 3));
  EXPECT_THAT(plan->worker_cpus(), ElementsAre(1, 2));
  settings.worker_cpus.clear();
  settings.cpus = "3";
  settings.cpu_workers = 2;
  plan = plan_cores(settings, false, map);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_THAT(plan->engine_cpus, ElementsAre(3));
  EXPECT_THAT(plan->worker_cpus(), ElementsAre(1, 2));
}

TEST(CoreSetup, SaysWhereNamedCoresAreAnotherEngines) {
  const MachineMap map = build({{4}});
  EngineSettings settings;
  settings.cpus = "0-1";
  const Result<PinPlan> plan = plan_cores(settings, false, map, {{"engine 7 (x)", {1}, {}}});
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_THAT(plan->notes, ElementsAre(HasSubstr("cpus 1 are named here (cpus, worker_cpus) and "
                                                 "are shared with engine 7 (x)")));
  EXPECT_THAT(host_options_of(settings, *plan).cpus, IsEmpty()) << "pinned nowhere";
}

TEST(CoreSetup, RefusesMoreThreadsThanThereAreCoresToPinThemTo) {
  EngineSettings settings;
  settings.threads = 5;
  const MachineMap map = build({{2, 2}});
  EXPECT_THAT(plan_cores(settings, false, map).status().message(),
              HasSubstr("5 threads cannot have a core each, there are 4"));
  settings.threads = 4;
  const Result<PinPlan> plan = plan_cores(settings, false, map);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_THAT(host_options_of(settings, *plan).cpus, ElementsAre(0, 1, 2, 3));
}

}  // namespace
}  // namespace tandem
