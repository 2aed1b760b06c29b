#include "cpu_lora/topology/plan/reader_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/support/test_seed.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

PinPlan plan_of(std::vector<int> engine, std::vector<std::vector<int>> workers) {
  PinPlan plan;
  plan.engine_cpus = std::move(engine);
  for (std::vector<int>& cpus : workers) plan.workers.push_back({0, std::move(cpus)});
  return plan;
}

TEST(ReaderPlan, SharesHalfOfTheEnginesCoresThenHalfOfTheWorkersThenTheOthers) {
  const ReaderPlan made = plan_readers(plan_of({0, 1, 2, 3}, {{4, 5, 6, 7, 8}}));
  EXPECT_THAT(made.cpus, ElementsAre(2, 3, 4, 5, 6, 7, 8));
  EXPECT_EQ(made.apart, 5U);
  EXPECT_THAT(made.beside, ElementsAre(3U));
}

TEST(ReaderPlan, LeavesHalfOfEachNodesWorkersAlone) {
  const ReaderPlan made = plan_readers(plan_of({0}, {{1, 2, 3, 4}, {9, 10}}));
  EXPECT_THAT(made.cpus, ElementsAre(1, 2, 9, 3, 4, 10));
  EXPECT_EQ(made.apart, 3U);
  EXPECT_THAT(made.beside, ElementsAre(2U, 1U));
}

TEST(ReaderPlan, IsNoneWhereOneThreadAloneWouldBeApart) {
  const ReaderPlan made = plan_readers(plan_of({0}, {{1, 2}}));
  EXPECT_THAT(made.cpus, IsEmpty());
  EXPECT_EQ(made.apart, 0U);
  EXPECT_THAT(made.beside, IsEmpty());
}

TEST(ReaderPlan, HasNoThreadOnACoreThatComputesWhileAdaptersAreRead) {
  std::mt19937_64 random(test_seed());
  for (int trial = 0; trial < 200; ++trial) {
    int next = 0;
    const auto some = [&](std::size_t least, std::size_t most) {
      std::vector<int> cpus(least + random() % (most - least + 1));
      for (int& cpu : cpus) cpu = next++;
      return cpus;
    };
    const std::vector<int> engine = some(1, 12);
    std::vector<std::vector<int>> workers(1 + random() % 3);
    for (auto& cpus : workers) cpus = some(1, 40);
    const ReaderPlan made = plan_readers(plan_of(engine, workers));
    std::vector<int> once = made.cpus;
    std::ranges::sort(once);
    EXPECT_EQ(std::ranges::adjacent_find(once), once.end());
    EXPECT_LE(once.size(), 16U);
    const auto apart = made.cpus.begin() + static_cast<std::ptrdiff_t>(made.apart);
    EXPECT_EQ(std::find(made.cpus.begin(), apart, engine.front()), apart);
    std::size_t could_be_apart = engine.size() / 2;
    for (const auto& cpus : workers) could_be_apart += cpus.size() > 1 ? (cpus.size() + 1) / 2 : 0;
    ASSERT_EQ(made.cpus.empty(), could_be_apart < 2);
    if (made.cpus.empty()) continue;
    EXPECT_EQ(made.apart, std::min<std::size_t>(could_be_apart, 16));
    ASSERT_EQ(made.beside.size(), workers.size());
    for (std::size_t g = 0; g < workers.size(); ++g) {
      EXPECT_LT(made.beside[g], workers[g].size()) << "somebody computes";
      for (std::size_t i = 0; i < made.beside[g]; ++i) {
        EXPECT_NE(std::find(made.cpus.begin(), apart, workers[g][i]), apart);
      }
      for (std::size_t i = made.beside[g]; i < workers[g].size(); ++i) {
        EXPECT_EQ(std::find(made.cpus.begin(), apart, workers[g][i]), apart);
      }
    }
  }
}

}  // namespace
}  // namespace tandem
