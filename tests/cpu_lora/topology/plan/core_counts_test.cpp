#include "cpu_lora/topology/plan/core_counts.h"

#include <gmock/gmock.h>

#include <set>

#include "tests/cpu_lora/topology/imagined_machine.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(CoreCounts, LeavesTheEngineTwoCoresUnlessAWorkerIsWishedFor) {
  const MachineMap map = build({{2}}, {0});
  EXPECT_THAT(plan(map).engine_cpus, ElementsAre(0, 1));
  EXPECT_THAT(plan(map).worker_cpus(), IsEmpty());
  PinOptions options;
  options.workers = 1;
  EXPECT_THAT(plan(map, options).engine_cpus, ElementsAre(0));
  EXPECT_THAT(plan(map, options).worker_cpus(), ElementsAre(1));
  EXPECT_THAT(plan(build({{4}}, {0})).worker_cpus(), ElementsAre(2, 3));
}

TEST(CoreCounts, HasTwelveWorkersNearAGpuAtTheMost) {
  EXPECT_THAT(plan(build({{32}}, {0})).worker_cpus(), SizeIs(12));
  EXPECT_THAT(plan(build({{32}}, {0})).engine_cpus, SizeIs(4));
  PinOptions options;
  options.gpus = {0, 1};
  const PinPlan two = plan(build({{32}, {8}}, {0, 1}), options);
  ASSERT_THAT(two.workers, SizeIs(2));
  EXPECT_THAT(two.workers[0].cpus, SizeIs(12));
  EXPECT_THAT(two.workers[1].cpus, SizeIs(8));
}

TEST(CoreCounts, LeavesTheHostDeviceAllCoresOfAllNodes) {
  PinOptions options;
  options.host_device = true;
  EXPECT_THAT(plan(build({{8}, {8}}), options).engine_cpus, SizeIs(16));
  options.workers = 2;
  const PinPlan made = plan(build({{8}, {8}}), options);
  EXPECT_THAT(made.engine_cpus, SizeIs(14));
  EXPECT_THAT(made.worker_cpus(), ElementsAre(6, 7));
}

TEST(CoreCounts, LeavesCoresAloneThatAnotherEngineHasClaimed) {
  const MachineMap map = build({{8, 2}}, {0});
  PinOptions options;
  options.claims = {{"engine 7 (x)", {8}, {5, 6}}};  // 8 is the sibling of 0
  const PinPlan made = plan(map, options);
  EXPECT_THAT(made.engine_cpus, ElementsAre(1, 2));
  EXPECT_THAT(made.worker_cpus(), ElementsAre(3, 4, 7));
  EXPECT_THAT(made.notes, IsEmpty());
  EXPECT_FALSE(made.shares_engine_cpus);
}

TEST(CoreCounts, TakesClaimedCoresForWishesAndNamesWhoHasThem) {
  const MachineMap map = build({{4}}, {0});
  PinOptions options;
  options.claims = {{"engine 7 (x)", {0}, {2, 3}}};
  options.workers = 2;
  const PinPlan made = plan(map, options);
  EXPECT_THAT(made.engine_cpus, ElementsAre(1)) << "the free one";
  EXPECT_THAT(made.worker_cpus(), ElementsAre(0, 3)) << "the engine's before its workers'";
  EXPECT_THAT(made.notes, ElementsAre(HasSubstr("cpus 0,3 are shared with engine 7 (x)")));
}

TEST(CoreCounts, HasNoWorkersWhereOthersHaveAllCores) {
  const MachineMap map = build({{4}}, {0});
  PinOptions options;
  options.claims = {{"engine 7 (x)", {0, 1}, {2, 3}}};
  const PinPlan made = plan(map, options);
  EXPECT_THAT(made.engine_cpus, SizeIs(1));
  EXPECT_THAT(made.worker_cpus(), IsEmpty());
  EXPECT_TRUE(made.shares_engine_cpus);
  EXPECT_THAT(made.notes, ElementsAre(HasSubstr("shared with engine 7 (x)")));
  options.host_device = true;
  EXPECT_TRUE(plan(map, options).shares_engine_cpus);
  options.claims = {{"engine 7 (x)", {0}, {}}};
  EXPECT_THAT(plan(map, options).engine_cpus, ElementsAre(1, 2, 3));
}

TEST(CoreCounts, CountsAQuotaAsSoManyCores) {
  MachineMap map = build({{16}}, {0});
  map.quota_cpus = 6.5;
  map.quota_source = "cpu.max";
  PinPlan made = plan(map);
  EXPECT_THAT(made.engine_cpus, SizeIs(2));
  EXPECT_THAT(made.worker_cpus(), SizeIs(4));
  EXPECT_THAT(made.notes, IsEmpty());
  EXPECT_THAT(made.facts, ElementsAre(HasSubstr("a CPU quota leaves 6.50 cores (cpu.max)")));
  PinOptions options;
  options.host_device = true;
  EXPECT_THAT(plan(map, options).engine_cpus, SizeIs(6));
  options.workers = 8;
  made = plan(map, options);
  EXPECT_THAT(made.engine_cpus, SizeIs(1));
  EXPECT_THAT(made.notes, ElementsAre(HasSubstr("9 threads run at once")));
  map.quota_cpus = 0.5;
  EXPECT_THAT(plan(map).engine_cpus, SizeIs(1));
  EXPECT_THAT(plan(map).worker_cpus(), IsEmpty());
}

TEST(CoreCounts, TakesCoresOfTheFastestKindUnlessThereAreFewOfThem) {
  MachineMap map = build({{12}}, {0});
  for (std::size_t i = 0; i < 4; ++i) map.cores[i].speed_rank = 1;
  for (std::size_t i = 10; i < 12; ++i) map.cores[i].speed_rank = 2;
  PinPlan made = plan(map);
  EXPECT_THAT(made.engine_cpus, ElementsAre(4, 5));
  EXPECT_THAT(made.worker_cpus(), ElementsAre(6, 7, 8, 9));
  EXPECT_THAT(made.facts, ElementsAre(HasSubstr("cpus 0-3,10-11 are of a slower kind")));
  PinOptions options;
  options.slow_cores = true;
  made = plan(map, options);
  EXPECT_THAT(made.engine_cpus, ElementsAre(4, 5, 6)) << "the fast ones are the engine's first";
  EXPECT_THAT(made.worker_cpus(), SizeIs(9));
  for (std::size_t i = 4; i < 8; ++i) map.cores[i].speed_rank = 1;
  EXPECT_THAT(plan(map).worker_cpus(), SizeIs(8)) << "two are not enough";
}

}  // namespace
}  // namespace tandem
