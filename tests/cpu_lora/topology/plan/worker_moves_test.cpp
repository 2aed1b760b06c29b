#include "cpu_lora/topology/plan/worker_moves.h"

#include <gmock/gmock.h>

#include "tests/cpu_lora/topology/imagined_machine.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;

void bar(MachineMap& map, const std::vector<int>& cpus) {
  for (const int cpu : cpus) thread_of(map, cpu).use = CpuUse::outside_cpuset;
}

TEST(WorkerMoves, LeavesWorkersWhereTheyMayStay) {
  const MachineMap map = build({{8}});
  EXPECT_THAT(move_workers(map, {{0, {6, 7}}}, {0}, {}), ElementsAre(ElementsAre(6, 7)));
}

TEST(WorkerMoves, GivesThoseWhoseCoreIsGoneTheLastOnesOfTheirNodeThatNobodyHas) {
  MachineMap map = build({{8, 2}, {4, 2}});
  bar(map, {6, 18, 7, 19});
  // Cpu 17 is the sibling of 5, and another engine has claimed it.
  const std::vector<CoreClaim> claims = {{"another", {17}, {}}};
  EXPECT_THAT(move_workers(map, {{0, {6, 7, 4}}}, {0, 1}, claims),
              ElementsAre(ElementsAre(3, 2, 4)));
}

TEST(WorkerMoves, GoesToTheNearestNodeWhereTheirOwnHasNone) {
  MachineMap map = build({{2}, {2}, {4}});
  bar(map, {1});
  EXPECT_THAT(move_workers(map, {{0, {1}}, {1, {3}}}, {0}, {}),
              ElementsAre(ElementsAre(2), ElementsAre(3)));
}

TEST(WorkerMoves, LeavesNoWorkerWhereNoCoreIsLeftAndFindsOneWhenThereIsOneAgain) {
  MachineMap map = build({{4}});
  bar(map, {2, 3});
  EXPECT_THAT(move_workers(map, {{0, {2, 3}}}, {0}, {}), ElementsAre(ElementsAre(1, -1)));
  EXPECT_THAT(move_workers(build({{4}}), {{0, {1, -1}}}, {0}, {}), ElementsAre(ElementsAre(1, 3)));
}

}  // namespace
}  // namespace tandem
