#include "cpu_lora/topology/machine_map.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <array>
#include <set>
#include <thread>

#include "base/threads/thread_cpus.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

using tandem::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kTwoSockets = "data/machines/two_sockets.xml";

MachineMap read(const MachineOptions& options) {
  Result<MachineMap> map = read_machine(options);
  EXPECT_TRUE(map.ok()) << map.status().message();
  return map ? *std::move(map) : MachineMap{};
}
MachineMap imagine(const std::string& synthetic) {
  MachineOptions options;
  options.synthetic = synthetic;
  return read(options);
}
MachineMap read_file(const std::string& xml) {
  MachineOptions options;
  options.xml = xml;
  return read(options);
}
MachineMap two_sockets() {
  return read_file(kTwoSockets);
}

TEST(MachineMap, ReadsPackagesNodesCachesAndCoresOfAFile) {
  const MachineMap map = two_sockets();
  EXPECT_EQ(map.source, kTwoSockets);
  ASSERT_THAT(map.packages, SizeIs(2));
  EXPECT_EQ(map.packages[0].name, "Example 9004");
  ASSERT_THAT(map.nodes, SizeIs(4));
  EXPECT_EQ(map.nodes[2].package, 1);
  EXPECT_EQ(map.nodes[2].memory_bytes, std::uint64_t{64} << 30);
  EXPECT_THAT(map.nodes[2].nearest, ElementsAre(2, 3, 0, 1));
  ASSERT_THAT(map.cores, SizeIs(8));
  EXPECT_EQ(map.cores[5].node, 2);
  EXPECT_EQ(map.cores[5].package, 1);
  EXPECT_THAT(map.cores[5].usable(), ElementsAre(5, 13));
  EXPECT_EQ(map.num_threads(), 16);
  ASSERT_THAT(map.caches, SizeIs(8 + 4));
  EXPECT_EQ(map.caches.front().level, 2);
  EXPECT_EQ(map.caches.back().bytes, std::uint64_t{32} << 20);
  EXPECT_THAT(map.caches.back().cpus, ElementsAre(6, 7, 14, 15));
}

TEST(MachineMap, SaysWhatTheCpusetForbids) {
  const MachineMap map = two_sockets();
  EXPECT_THAT(map.cores[7].usable(), IsEmpty());
  EXPECT_EQ(map.cores[7].threads[0].use, CpuUse::outside_cpuset);
}

TEST(MachineMap, FindsNvidiasDisplayAnd3DDevicesAndTheirNodes) {
  const MachineMap map = two_sockets();
  ASSERT_THAT(map.gpus, SizeIs(2)) << "the network card is none";
  EXPECT_EQ(map.gpus[0].name, "GH100 [H200 SXM 141GB]");
  EXPECT_EQ(map.gpus[0].pci, "0000:1b:00.0");
  EXPECT_THAT(map.gpus[0].nodes, ElementsAre(1));
  EXPECT_EQ(map.gpus[1].index, 1);
  EXPECT_THAT(map.gpus[1].nodes, ElementsAre(3));
}

TEST(MachineMap, PutsImaginedGpusAtTheirNodes) {
  MachineOptions options;
  options.synthetic = "node:2 core:2 pu:2";
  options.gpu_nodes = {1};
  const MachineMap map = read(options);
  ASSERT_THAT(map.gpus, SizeIs(1));
  EXPECT_THAT(map.gpus[0].nodes, ElementsAre(1));
  options.gpu_nodes = {2};
  EXPECT_THAT(read_machine(options).status().message(), HasSubstr("nodes 0-1"));
  options.synthetic.clear();
  EXPECT_FALSE(read_machine(options).ok()) << "this machine's GPUs cannot be imagined";
}

TEST(MachineMap, MarksWhatTheAffinityMaskLeavesOutAndWhatIsIsolated) {
  MachineOptions options;
  options.synthetic = "core:4 pu:1";
  options.allowed_cpus = std::vector<int>{0, 2, 99};
  options.isolated_cpus = std::vector<int>{2, 3};
  const MachineMap map = read(options);
  EXPECT_EQ(map.cores[1].threads[0].use, CpuUse::outside_affinity);
  EXPECT_TRUE(map.cores[2].threads[0].isolated);
  EXPECT_THAT(map.cores[2].usable(), ElementsAre(2));
  EXPECT_THAT(map.cores[3].usable(), IsEmpty());
}

TEST(MachineMap, GivesANodeWithoutMemoryTheNearestThatHasSome) {
  const MachineMap none = imagine("node:2 core:1 pu:1");
  EXPECT_EQ(none.nodes[1].memory_node, 1) << "the default has memory everywhere";
  const MachineMap map = imagine("pack:2 node:2(memory=0) core:1 pu:1");
  EXPECT_EQ(map.nodes[3].memory_node, 3) << "no figures at all are no lack of memory";
}

TEST(MachineMap, ShowsThisMachineAsTheKernelDoes) {
  const MachineMap map = read({});
  EXPECT_EQ(map.source, "this machine");
  std::set<int> usable;
  std::set<int> seen;
  for (const MachineCore& core : map.cores) {
    for (const int cpu : core.usable()) usable.insert(cpu);
    for (const MachineThread& thread : core.threads) {
      EXPECT_TRUE(seen.insert(thread.cpu).second) << thread.cpu << " is in two cores";
    }
    EXPECT_NE(map.find_node(core.node), nullptr);
  }
  EXPECT_THAT(usable, ElementsAreArray(cpus_of_thread(getpid())));
}

std::vector<int> ranks_of(const MachineMap& map) {
  std::vector<int> ranks;
  for (const MachineCore& core : map.cores) ranks.push_back(core.speed_rank);
  return ranks;
}

TEST(MachineMap, RanksPerformanceCoresBeforeEfficiencyCores) {
  const MachineMap map = read_file("data/machines/hybrid.xml");
  std::vector<int> ranks(8, 0);
  ranks.resize(24, 1);
  EXPECT_EQ(ranks_of(map), ranks);
  ASSERT_THAT(map.core_kinds, SizeIs(2));
  EXPECT_EQ(map.core_kinds[0].name, "IntelCore");
  EXPECT_EQ(map.core_kinds[0].max_mhz, 5800);
  EXPECT_EQ(map.core_kinds[1].name, "IntelAtom");
}

TEST(MachineMap, RanksTheFastCoresFirstWhereTheSlowOnesHaveTheLowestNumbers) {
  const MachineMap map = read_file("data/machines/big_little.xml");
  EXPECT_THAT(ranks_of(map), ElementsAre(1, 1, 1, 1, 0, 0, 0, 0));
  ASSERT_THAT(map.core_kinds, SizeIs(2));
  EXPECT_EQ(map.core_kinds[0].name, "") << "the file names none";
}

TEST(MachineMap, HasNoKindsOfCoresWhereAllAreAlike) {
  const MachineMap map = two_sockets();
  EXPECT_THAT(ranks_of(map), ::testing::Each(0));
  EXPECT_THAT(map.core_kinds, IsEmpty());
}

std::vector<int> nodes_of_cores(const MachineMap& map) {
  std::set<int> nodes;
  for (const MachineCore& core : map.cores) nodes.insert(core.node);
  return {nodes.begin(), nodes.end()};
}

TEST(MachineMap, PutsCoresAtTheirOwnNodeWhereOneOfMemoryAloneHasALowerNumber) {
  const MachineMap map = read_file("data/machines/memory_node_first.xml");
  EXPECT_THAT(nodes_of_cores(map), ElementsAre(1, 2));
  ASSERT_THAT(map.gpus, SizeIs(1));
  EXPECT_THAT(map.gpus[0].nodes, ElementsAre(2));
}

TEST(MachineMap, PutsCoresAtOrdinaryMemoryRatherThanAtTheLittleThatIsFast) {
  const MachineMap map = read_file("data/machines/fast_memory_first.xml");
  EXPECT_THAT(nodes_of_cores(map), ElementsAre(2, 3));
  EXPECT_THAT(map.gpus[0].nodes, ElementsAre(3));
}

TEST(MachineMap, KnowsWhereAGpuIsWhereOneNodeAloneHasCores) {
  const MachineMap map = read_file("data/machines/memory_node_beside.xml");
  ASSERT_THAT(map.nodes, SizeIs(2));
  EXPECT_THAT(nodes_of_cores(map), ElementsAre(0));
  EXPECT_THAT(map.gpus[0].nodes, ElementsAre(0));
}

TEST(MachineMap, HasOneNodeWithAllMemoryWhereTheKernelsFolderOfNodesIsEmpty) {
  const TempDir empty;
  MachineOptions options;
  options.node_folder = empty.path();
  const MachineMap map = read(options);
  const MachineMap usual = read({});
  ASSERT_THAT(map.nodes, SizeIs(1));
  EXPECT_GT(map.nodes[0].memory_bytes, std::uint64_t{1} << 20);
  EXPECT_EQ(map.num_threads(), usual.num_threads());
  std::vector<int> usable;
  for (const MachineCore& core : map.cores) {
    EXPECT_EQ(core.node, 0);
    for (const int cpu : core.usable()) usable.push_back(cpu);
  }
  EXPECT_THAT(usable, ::testing::UnorderedElementsAreArray(cpus_of_thread(getpid())));
}

TEST(MachineMap, LeavesThisThreadOnItsCpus) {
  std::vector<int> before, after;
  std::thread([&] {
    pin_this_thread(std::array{cpus_of_thread().back()}, "a test");
    before = cpus_of_thread();
    read({});
    after = cpus_of_thread();
  }).join();
  EXPECT_EQ(after, before);
}

TEST(MachineMap, TakesAQuotaForOtherMachinesOnly) {
  MachineOptions options;
  options.quota_cpus = 2.5;
  EXPECT_THAT(read_machine(options).status().message(), HasSubstr("quota"));
  options.synthetic = "core:4 pu:1";
  EXPECT_EQ(read(options).quota_cpus, 2.5);
  options.quota_cpus = 0;
  EXPECT_FALSE(read_machine(options).ok());
}

TEST(MachineMap, RefusesWhatItCannotRead) {
  MachineOptions options;
  options.xml = "data/machines/none.xml";
  EXPECT_EQ(read_machine(options).status().code(), StatusCode::not_found);
  options.xml = "data/golden.json";
  EXPECT_THAT(read_machine(options).status().message(), HasSubstr("golden.json is not a machine"));
  options.synthetic = "core:2 pu:1";
  EXPECT_THAT(read_machine(options).status().message(), HasSubstr("not both"));
}

}  // namespace
}  // namespace tandem
