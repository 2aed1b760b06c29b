#include "cpu_lora/topology/topology.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <set>

#include "base/threads/thread_cpus.h"

namespace tandem {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int> first_cpus(const std::vector<Core>& cores) {
  std::vector<int> cpus;
  for (const Core& core : cores) cpus.push_back(core.cpu);
  return cpus;
}

TEST(Topology, ListsOneHardwareThreadPerCoreOfThisMachine) {
  const auto cores = read_topology();
  ASSERT_TRUE(cores.ok()) << cores.status().message();
  const std::vector<int> usable = cpus_of_thread(getpid());
  std::set<int> seen;
  for (const Core& core : *cores) {
    ASSERT_FALSE(core.cpus.empty());
    EXPECT_EQ(core.cpu, core.cpus.front());
    for (const int cpu : core.cpus) {
      EXPECT_THAT(usable, Contains(cpu));
      EXPECT_TRUE(seen.insert(cpu).second) << cpu << " is in two cores";
    }
  }
}

TEST(Topology, GroupsHardwareThreadsByCoreAndCoresByNode) {
  const auto cores = read_topology({.synthetic = "node:2 core:2 pu:2", .allowed_cpus = {}});
  ASSERT_TRUE(cores.ok()) << cores.status().message();
  EXPECT_THAT(first_cpus(*cores), ElementsAre(0, 2, 4, 6));
  EXPECT_THAT((*cores)[1].cpus, ElementsAre(2, 3));
  EXPECT_EQ((*cores)[1].numa_node, 0);
  EXPECT_EQ((*cores)[2].numa_node, 1);
}

TEST(Topology, LeavesOutWhatIsNotAllowed) {
  const auto cores = read_topology(
      {.synthetic = "node:2 core:2 pu:2", .allowed_cpus = std::vector<int>{3, 6, 7, 99}});
  ASSERT_TRUE(cores.ok()) << cores.status().message();
  EXPECT_THAT(first_cpus(*cores), ElementsAre(3, 6));
  EXPECT_THAT((*cores)[0].cpus, ElementsAre(3));
}

TEST(Topology, SaysSoWhenNothingMayBeUsed) {
  const auto cores =
      read_topology({.synthetic = "core:2 pu:1", .allowed_cpus = std::vector<int>{5}});
  ASSERT_FALSE(cores.ok());
  EXPECT_THAT(cores.status().message(), HasSubstr("no usable core"));
}

TEST(Topology, RefusesADescriptionThatHwlocCannotRead) {
  const auto cores = read_topology({.synthetic = "pears:2", .allowed_cpus = {}});
  ASSERT_FALSE(cores.ok());
  EXPECT_THAT(cores.status().message(), HasSubstr("pears:2"));
}

}  // namespace
}  // namespace tandem
