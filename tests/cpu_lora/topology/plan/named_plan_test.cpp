#include "cpu_lora/topology/plan/named_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

MachineMap two_nodes(std::vector<int> allowed = {}, const char* shape = "node:2 core:4 pu:1") {
  MachineOptions options;
  options.synthetic = shape;
  if (!allowed.empty()) options.allowed_cpus = std::move(allowed);
  Result<MachineMap> made = read_machine(options);
  EXPECT_TRUE(made) << made.status().message();
  return std::move(made).value();
}

TEST(NamedPlan, HasWorkersByNodeInTheOrderOfTheList) {
  const Result<PinPlan> made = named_plan(two_nodes(), {6, 2, 5, 3}, {1, 0});
  ASSERT_TRUE(made) << made.status().message();
  ASSERT_THAT(made->workers, SizeIs(2));
  EXPECT_EQ(made->workers[0].node, 1);
  EXPECT_THAT(made->workers[0].cpus, ElementsAre(6, 5));
  EXPECT_EQ(made->workers[1].node, 0);
  EXPECT_THAT(made->workers[1].cpus, ElementsAre(2, 3));
  EXPECT_THAT(made->engine_cpus, ElementsAre(0, 1));
}

TEST(NamedPlan, LeavesTheEngineWithoutCoresWhereNoneAreNamedForIt) {
  const Result<PinPlan> made = named_plan(two_nodes(), {2, 3}, {});
  ASSERT_TRUE(made) << made.status().message();
  EXPECT_THAT(made->engine_cpus, IsEmpty());
}

TEST(NamedPlan, CountsWhatWorkersHaveAsNoneOfTheEngines) {
  const Result<PinPlan> made = named_plan(two_nodes(), {2, 3}, {1, 2, 3});
  ASSERT_TRUE(made) << made.status().message();
  EXPECT_THAT(made->engine_cpus, ElementsAre(1));
  EXPECT_THAT(made->notes, ElementsAre(HasSubstr("cpus 2-3 are not counted as the engine's own")));
}

TEST(NamedPlan, CountsSiblingsOfWorkersAsNoneOfTheEngines) {
  // There are two threads per core: cpus 2 and 3 are on one core.
  const Result<PinPlan> made = named_plan(two_nodes({}, "node:1 core:4 pu:2"), {2}, {0, 3, 4});
  ASSERT_TRUE(made) << made.status().message();
  EXPECT_THAT(made->engine_cpus, ElementsAre(0, 4));
}

TEST(NamedPlan, RefusesCpusThatMayNotBeUsedAndNamesTheSetting) {
  const MachineMap map = two_nodes({0, 1, 2});
  EXPECT_THAT(named_plan(map, {2, 3}, {0}).status().message(),
              HasSubstr("worker_cpus: cpu 3 is none that this process may use"));
  EXPECT_THAT(named_plan(map, {2}, {0, 99}).status().message(),
              HasSubstr("cpus: cpu 99 is none that this process may use"));
}

}  // namespace
}  // namespace tandem
