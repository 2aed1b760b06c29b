#include "cpu_lora/topology/plan/pin_plan.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <random>
#include <set>

#include "cpu_lora/topology/plan/node_shares.h"
#include "tests/cpu_lora/topology/imagined_machine.h"
#include "tests/support/test_seed.h"

namespace tandem {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(PinPlan, GivesTheEngineAQuarterNearTheGpuAndWorkersTheRestOfItsNode) {
  const PinPlan made = plan(build({{8, 2}, {8, 2}, {8, 2}, {8, 2}}, {2}));
  EXPECT_THAT(made.gpus, ElementsAre(0));
  EXPECT_EQ(made.node, 2);
  EXPECT_THAT(made.engine_cpus, ElementsAre(16, 17));
  ASSERT_THAT(made.workers, SizeIs(1));
  EXPECT_EQ(made.workers[0].node, 2);
  EXPECT_THAT(made.workers[0].cpus, ElementsAre(18, 19, 20, 21, 22, 23));
  EXPECT_THAT(made.notes, IsEmpty());
}

TEST(PinPlan, LeavesTheOnlyCoreToTheEngine) {
  PinOptions options;
  PinPlan made = plan(build({{1}}), options);
  EXPECT_THAT(made.engine_cpus, ElementsAre(0));
  EXPECT_THAT(made.workers, IsEmpty());
  EXPECT_THAT(made.facts, ElementsAre(HasSubstr("no core is spare")));
  EXPECT_THAT(made.notes, IsEmpty());
  options.workers = 2;
  made = plan(build({{1}}), options);
  EXPECT_THAT(made.workers, IsEmpty());
  EXPECT_THAT(made.notes, ElementsAre(HasSubstr("2 workers are asked for and 0 get a core")));
}

TEST(PinPlan, PlansTwentyThousandThreadsAtOnce) {
  const MachineMap map = build(std::vector<NodeShape>(16, {640, 2}), {3});
  PinOptions options;
  options.smt = true;
  options.exclude = {7};
  for (int cpu = 100; cpu < 4000; ++cpu) options.exclude.push_back(cpu);
  EXPECT_THAT(plan(map, options).worker_cpus(), SizeIs(12));
}

TEST(PinPlan, TakesSiblingsOnlyWhenAskedAndOnlyWhenCoresRunOut) {
  const MachineMap map = build({{4, 2}}, {0});
  PinOptions options;
  options.workers = 6;
  PinPlan made = plan(map, options);
  EXPECT_THAT(made.worker_cpus(), ElementsAre(1, 2, 3));
  EXPECT_THAT(made.notes, Contains(HasSubstr("--smt allows siblings")));
  options.smt = true;
  made = plan(map, options);
  EXPECT_THAT(made.engine_cpus, ElementsAre(0));
  EXPECT_THAT(made.worker_cpus(), ElementsAre(1, 2, 3, 5, 6, 7)) << "not the engine's sibling, 4";
  options.workers = 3;
  EXPECT_THAT(plan(map, options).worker_cpus(), ElementsAre(1, 2, 3));
}

TEST(PinPlan, UsesFurtherNodesOnlyWhenAskedAndNearestFirst) {
  const MachineMap map = build({{2}, {4}, {4}, {4}}, {3});
  PinOptions options;
  options.workers = 8;
  options.engine_cores = 1;
  PinPlan made = plan(map, options);
  EXPECT_THAT(made.worker_cpus(), ElementsAre(11, 12, 13));
  EXPECT_THAT(made.notes, ElementsAre(HasSubstr("--all-nodes")));
  options.all_nodes = true;
  made = plan(map, options);
  ASSERT_THAT(made.workers, SizeIs(3));
  EXPECT_EQ(made.workers[0].node, 3);
  EXPECT_EQ(made.workers[1].node, 2);
  EXPECT_THAT(made.workers[1].cpus, ElementsAre(6, 7, 8, 9));
  EXPECT_EQ(made.workers[2].node, 0);
  EXPECT_THAT(made.notes, IsEmpty());
}

TEST(PinPlan, GoesToTheNearestNodeWhenTheGpusHasNoUsableCore) {
  MachineMap map = build({{2}, {2}, {2}, {2}}, {1});
  for (const int cpu : {2, 3}) thread_of(map, cpu).use = CpuUse::outside_cpuset;
  const PinPlan made = plan(map);
  EXPECT_EQ(made.node, 0);
  EXPECT_THAT(made.engine_cpus, ElementsAre(0, 1));
  EXPECT_THAT(made.notes, ElementsAre(HasSubstr("node 1 has no usable core: node 0")));
}

TEST(PinPlan, CountsCoresOfANodeWithoutMemoryToTheNodeWhoseMemoryTheyUse) {
  const PinPlan made = plan(build({{4, 1, 0}, {0}, {2, 1, 0}, {2}}));
  EXPECT_EQ(made.node, 1);
  EXPECT_THAT(made.worker_cpus(), ElementsAre(2, 3));
  PinOptions options;
  options.node = 0;
  const PinPlan asked = plan(build({{4, 1, 0}, {2}}), options);
  EXPECT_EQ(asked.node, 1);
  EXPECT_THAT(asked.workers.front().cpus, ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(asked.notes, ElementsAre(HasSubstr("node 0 has no memory of its own")));
}

TEST(PinPlan, KeepsIsolatedCoresForWorkers) {
  MachineMap map = build({{8}}, {0});
  for (const int cpu : {0, 1, 2}) thread_of(map, cpu).isolated = true;
  PinOptions options;
  options.workers = 4;
  const PinPlan made = plan(map, options);
  EXPECT_THAT(made.engine_cpus, ElementsAre(3, 4));
  EXPECT_THAT(made.worker_cpus(), ElementsAre(0, 1, 2, 7));
  EXPECT_THAT(made.facts, ElementsAre(HasSubstr("cpus 0-2 are isolated")));
}

TEST(PinPlan, TellsHowIsolatedCoresOutsideTheAffinityMaskAreHad) {
  MachineMap map = build({{4}}, {0});
  thread_of(map, 3).isolated = true;
  thread_of(map, 3).use = CpuUse::outside_affinity;
  const PinPlan made = plan(map);
  EXPECT_THAT(made.worker_cpus(), ElementsAre(2));
  EXPECT_THAT(made.facts, ElementsAre(HasSubstr("taskset")));
}

TEST(PinPlan, ExcludesWholeCoresUnlessSiblingsAreAllowed) {
  const MachineMap map = build({{4, 2}}, {0});
  PinOptions options;
  options.exclude = {0};
  EXPECT_THAT(plan(map, options).engine_cpus, ElementsAre(1, 2));
  options.smt = true;
  options.workers = 6;
  EXPECT_THAT(plan(map, options).worker_cpus(), SizeIs(6));
}

TEST(PinPlan, IsAnErrorWhenNothingIsLeftForTheEngine) {
  MachineMap map = build({{2}});
  PinOptions options;
  options.exclude = {0, 1};
  EXPECT_THAT(plan_pinning(map, options).status().message(), HasSubstr("all are excluded"));
  thread_of(map, 0).isolated = true;
  options.exclude = {1};
  EXPECT_THAT(plan_pinning(map, options).status().message(), HasSubstr("isolated"));
  for (const int cpu : {0, 1}) thread_of(map, cpu).use = CpuUse::outside_affinity;
  EXPECT_THAT(plan_pinning(map, {}).status().message(), HasSubstr("no core may be used"));
}

TEST(PinPlan, RefusesNodesGpusAndCpusThatAreNotThere) {
  const MachineMap map = build({{2}, {2}}, {0});
  PinOptions options;
  options.node = 5;
  EXPECT_THAT(plan_pinning(map, options).status().message(), HasSubstr("nodes are 0-1"));
  options = {};
  options.gpus = {1};
  EXPECT_THAT(plan_pinning(map, options).status().message(), HasSubstr("there are 1"));
  options = {};
  options.exclude = {9};
  EXPECT_THAT(plan_pinning(map, options).status().message(), HasSubstr("cpus are 0-3"));
}

TEST(PinPlan, ReadsAFileOfTwoSocketsWithFourNodes) {
  MachineOptions file;
  file.xml = "data/machines/two_sockets.xml";
  const Result<MachineMap> map = read_machine(file);
  ASSERT_TRUE(map.ok());
  PinOptions options;
  options.gpus = {1};
  options.all_nodes = true;
  const PinPlan made = plan(*map, options);
  EXPECT_EQ(made.node, 3);
  EXPECT_THAT(made.engine_cpus, ElementsAre(4, 6)) << "its node has one core in the cpuset";
  ASSERT_THAT(made.workers, SizeIs(3));
  EXPECT_EQ(made.workers[0].node, 2);
}

TEST(PinPlan, HasWorkersNearEachOfTheGpusThatShareAModel) {
  const MachineMap map = build({{8, 2}, {8, 2}, {8, 2}, {8, 2}}, {2, 1});
  PinOptions options;
  options.gpus = {0, 1};
  options.workers = 6;
  const PinPlan made = plan(map, options);
  EXPECT_THAT(made.gpus, ElementsAre(0, 1));
  EXPECT_EQ(made.node, 2) << "of the first";
  EXPECT_THAT(made.engine_cpus, ElementsAre(16, 17, 18, 19));
  ASSERT_THAT(made.workers, SizeIs(2));
  EXPECT_EQ(made.workers[0].node, 2);
  EXPECT_THAT(made.workers[0].cpus, ElementsAre(21, 22, 23));
  EXPECT_EQ(made.workers[1].node, 1);
  EXPECT_THAT(made.workers[1].cpus, ElementsAre(13, 14, 15));
  EXPECT_THAT(made.notes, IsEmpty());
  options.workers = 11;  // more than the first node has besides the engine's cores
  const PinPlan more = plan(map, options);
  EXPECT_THAT(more.workers[0].cpus, SizeIs(4));
  EXPECT_THAT(more.workers[1].cpus, SizeIs(7));
}

TEST(PinPlan, KeepsToTheOneNodeThatAllGpusHangAt) {
  const MachineMap map = build({{8}, {8}}, {1, 1});
  PinOptions options;
  options.gpus = {0, 1};
  const PinPlan made = plan(map, options);
  ASSERT_THAT(made.workers, SizeIs(1));
  EXPECT_EQ(made.workers[0].node, 1);
  EXPECT_THAT(places_of(map, {0, 1}), ElementsAre(ElementsAre(1)));
}

TEST(PinPlan, TellsOfAGpuWhoseNodeHasNoUsableCore) {
  MachineMap map = build({{4}, {4}}, {0, 1});
  for (int cpu = 4; cpu < 8; ++cpu) thread_of(map, cpu).use = CpuUse::outside_cpuset;
  PinOptions options;
  options.gpus = {0, 1};
  const PinPlan made = plan(map, options);
  EXPECT_THAT(made.worker_cpus(), ElementsAre(2, 3));
  EXPECT_THAT(made.notes, ElementsAre(HasSubstr("no core of node 1")));
}

TEST(PinPlan, SpreadsWorkersOverTheNodesOfTwoGpusOfARecordedMachine) {
  MachineOptions file;
  file.xml = "data/machines/two_sockets.xml";
  const Result<MachineMap> map = read_machine(file);
  ASSERT_TRUE(map.ok());
  PinOptions options;
  options.gpus = {0, 1};
  options.workers = 2;
  const PinPlan made = plan(*map, options);
  std::vector<int> nodes;
  for (const PinPlan::Workers& group : made.workers) nodes.push_back(group.node);
  const int first = map->gpus[0].nodes.front(), second = map->gpus[1].nodes.front();
  ASSERT_NE(first, second);
  EXPECT_THAT(nodes, ElementsAre(first, second));
}

// The rules in the header hold for any machine and any wishes.
TEST(PinPlan, KeepsItsRulesOnRandomMachines) {
  const std::uint64_t seed = test_seed();
  std::mt19937_64 random(seed);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  int planned = 0;
  int full = 0;
  for (int round = 0; round < 4000; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    std::vector<NodeShape> shapes;
    for (int n = pick(1, 5); n > 0; --n) {
      shapes.push_back({pick(0, 6), pick(1, 2), pick(0, 4) == 0 ? 0U : 1U << 30});
    }
    shapes.front().cores += 1;
    shapes.back().memory = 1U << 30;
    std::vector<int> gpu_nodes;
    for (int gpu = pick(0, 2); gpu > 0; --gpu) {
      gpu_nodes.push_back(pick(0, static_cast<int>(shapes.size()) - 1));
    }
    MachineMap map = build(shapes, gpu_nodes);
    PinOptions options;
    options.workers = pick(-1, 12);
    options.engine_cores = pick(-1, 5);
    if (options.engine_cores == 0) options.engine_cores = -1;
    options.all_nodes = pick(0, 1) == 1;
    options.smt = pick(0, 1) == 1;
    options.host_device = pick(0, 3) == 0;
    if (!options.host_device && gpu_nodes.size() == 2) options.gpus = {0, 1};
    if (pick(0, 3) == 0) options.node = pick(0, static_cast<int>(shapes.size()) - 1);
    std::map<int, int> core_of;
    std::map<int, int> node_of;
    std::set<int> isolated;
    for (MachineCore& core : map.cores) {
      for (MachineThread& thread : core.threads) {
        core_of[thread.cpu] = core.id;
        node_of[thread.cpu] = map.find_node(core.node)->memory_node;
        if (pick(0, 9) == 0) thread.use = CpuUse::outside_affinity;
        if (pick(0, 9) == 0) thread.isolated = true;
        if (pick(0, 9) == 0) options.exclude.push_back(thread.cpu);
      }
    }
    std::set<int> allowed;
    for (MachineCore& core : map.cores) {
      const bool touched = std::any_of(core.threads.begin(), core.threads.end(), [&](auto& t) {
        return std::count(options.exclude.begin(), options.exclude.end(), t.cpu) > 0;
      });
      for (MachineThread& thread : core.threads) {
        const bool excluded =
            std::count(options.exclude.begin(), options.exclude.end(), thread.cpu) > 0;
        if (excluded || (touched && !options.smt) || thread.use != CpuUse::usable) continue;
        allowed.insert(thread.cpu);
        if (thread.isolated) isolated.insert(thread.cpu);
      }
    }

    const Result<PinPlan> made = plan_pinning(map, options);
    if (!made) {
      // No plan means that no core is left for the engine: all allowed ones have isolated threads.
      EXPECT_EQ(made.status().code(), StatusCode::unavailable) << made.status().message();
      std::set<int> isolated_cores;
      for (const int cpu : isolated) isolated_cores.insert(core_of[cpu]);
      for (const int cpu : allowed) {
        EXPECT_TRUE(isolated.count(cpu) > 0 ||
                    (!options.smt && isolated_cores.count(core_of[cpu])));
      }
      continue;
    }
    ++planned;
    const std::vector<int> workers = made->worker_cpus();
    ASSERT_FALSE(made->engine_cpus.empty());
    std::set<int> cpus;
    std::set<int> cores;
    std::set<int> worker_nodes;
    for (const int cpu : made->engine_cpus) {
      EXPECT_TRUE(allowed.count(cpu)) << cpu;
      EXPECT_FALSE(isolated.count(cpu)) << cpu << " is isolated";
      EXPECT_TRUE(cpus.insert(cpu).second) << cpu << " twice";
      if (!options.smt) {
        EXPECT_TRUE(cores.insert(core_of[cpu]).second) << cpu << " is a sibling";
      }
    }
    for (const PinPlan::Workers& group : made->workers) {
      EXPECT_FALSE(group.cpus.empty());
      EXPECT_TRUE(worker_nodes.insert(group.node).second);
      EXPECT_TRUE(std::is_sorted(group.cpus.begin(), group.cpus.end()));
      for (const int cpu : group.cpus) {
        EXPECT_EQ(node_of[cpu], group.node);
        EXPECT_TRUE(allowed.count(cpu)) << cpu;
        EXPECT_TRUE(cpus.insert(cpu).second) << cpu << " twice";
        if (!options.smt) {
          EXPECT_TRUE(cores.insert(core_of[cpu]).second) << cpu << " is a sibling";
        }
      }
    }
    std::set<int> near = {made->node};
    for (const int gpu : options.gpus) {
      if (options.node >= 0) break;
      near.insert(map.find_node(gpu_nodes[static_cast<std::size_t>(gpu)])->memory_node);
    }
    if (!options.all_nodes) {
      for (const int node : worker_nodes) EXPECT_TRUE(near.count(node)) << node;
    }
    // The requested numbers are met, or a note gives the reason.
    const auto told = [&](const char* what) {
      return std::any_of(made->notes.begin(), made->notes.end(), [&](const std::string& note) {
        return note.find(what) != std::string::npos;
      });
    };
    if (options.workers >= 0) {
      EXPECT_LE(workers.size(), static_cast<std::size_t>(options.workers));
      if (workers.size() < static_cast<std::size_t>(options.workers)) {
        EXPECT_TRUE(told("workers are asked for"));
        // If workers are missing, no core that they could have had is idle.
        for (const int cpu : allowed) {
          if (cpus.count(cpu) || (!options.smt && cores.count(core_of[cpu]))) continue;
          EXPECT_TRUE(!options.all_nodes && near.count(node_of[cpu]) == 0) << cpu << " is idle";
        }
      } else {
        ++full;
      }
    }
    if (options.engine_cores > 0) {
      EXPECT_LE(made->engine_cpus.size(), static_cast<std::size_t>(options.engine_cores));
      if (made->engine_cpus.size() < static_cast<std::size_t>(options.engine_cores)) {
        EXPECT_TRUE(told("asked for the engine"));
      }
    }
    // The plan is near the GPU, or a note gives the reason.
    if (!made->gpus.empty() && options.node < 0 && made->notes.empty()) {
      EXPECT_EQ(made->node, gpu_nodes.front());
    }
  }
  std::printf("%d planned, %d with all that was wished for\n", planned, full);
}

}  // namespace
}  // namespace tandem
