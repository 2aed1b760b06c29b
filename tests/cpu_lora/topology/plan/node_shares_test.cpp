#include "cpu_lora/topology/plan/node_shares.h"

#include <gmock/gmock.h>

#include <set>

#include "tests/cpu_lora/topology/imagined_machine.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A board with eight GPUs, four on each of two nodes.
TEST(NodeShares, GivesGpusThatShareANodeAPartEach) {
  const MachineMap map = build({{56}, {56}}, {0, 0, 0, 0, 1, 1, 1, 1});
  std::set<int> taken;
  for (int gpu = 0; gpu < 8; ++gpu) {
    PinOptions options;
    options.gpus = {gpu};
    const PinPlan made = plan(map, options);
    EXPECT_THAT(made.engine_cpus, SizeIs(3));
    EXPECT_THAT(made.worker_cpus(), SizeIs(11));
    EXPECT_THAT(made.notes, IsEmpty());
    EXPECT_THAT(made.facts, ElementsAre(HasSubstr("of the 56 cores of node")));
    for (const int cpu : made.engine_cpus) EXPECT_TRUE(taken.insert(cpu).second) << cpu;
    for (const int cpu : made.worker_cpus()) EXPECT_TRUE(taken.insert(cpu).second) << cpu;
  }
  EXPECT_THAT(taken, SizeIs(112));
}

TEST(NodeShares, ReachesBeyondItsPartForWishesAlone) {
  const MachineMap map = build({{16}}, {0, 0});
  EXPECT_THAT(plan(map).worker_cpus(), ElementsAre(2, 3, 4, 5, 6, 7));
  PinOptions options;
  options.workers = 7;
  EXPECT_THAT(plan(map, options).worker_cpus(), ElementsAre(1, 2, 3, 4, 5, 6, 7));
  options.workers = 10;
  EXPECT_THAT(plan(map, options).worker_cpus(), ElementsAre(2, 3, 4, 5, 6, 7, 12, 13, 14, 15));
}

TEST(NodeShares, SharesTheRoomiestNodeAmongGpusWhosePlaceIsNotTold) {
  MachineMap map = build({{8}, {4}}, {0, 0});
  for (MachineGpu& gpu : map.gpus) gpu.nodes.clear();
  PinOptions options;
  options.gpus = {1};
  const PinPlan made = plan(map, options);
  EXPECT_THAT(made.engine_cpus, ElementsAre(4, 5));
  EXPECT_THAT(made.worker_cpus(), ElementsAre(6, 7));
  EXPECT_THAT(made.notes, ElementsAre(HasSubstr("does not say at which node GPU 1 is")));
}

TEST(NodeShares, HasWorkersAtNoMoreNodesThanAnEngineHasMailboxes) {
  PinOptions options;
  options.all_nodes = true;
  options.workers = 40;
  const PinPlan made = plan(build(std::vector<NodeShape>(12, {4}), {0}), options);
  EXPECT_THAT(made.workers, SizeIs(8));
  EXPECT_THAT(made.notes, ElementsAre(HasSubstr("40 workers are asked for and")));
}

}  // namespace
}  // namespace tandem
