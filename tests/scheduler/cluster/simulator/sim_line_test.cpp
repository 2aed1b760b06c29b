#include "scheduler/cluster/simulator/sim_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem {
namespace {

using testing::ElementsAre;

SimRequest a_request(std::int32_t adapter, double arrival_s = 0) {
  return {.arrival_s = arrival_s,
          .adapter = ClusterAdapterId(adapter),
          .rank = 8,
          .prompt_tokens = 10,
          .answer_tokens = 5};
}

std::vector<std::int32_t> adapters(const SimLine& line) {
  std::vector<std::int32_t> list;
  for (const SimWaiting& one : line.list()) list.push_back(one.request.adapter.value());
  return list;
}

TEST(SimLine, IsByArrivalUnlessAskedOtherwise) {
  SimLine line({});
  for (const std::int32_t adapter : {3, 1, 2}) line.add(a_request(adapter), adapter == 1);
  line.arrange({});
  EXPECT_THAT(adapters(line), ElementsAre(3, 1, 2));
  EXPECT_EQ(line.load().tokens, 30);
  EXPECT_EQ(line.load().rank_max, 8);
  EXPECT_EQ(line.rank_sum(), 24);
  EXPECT_TRUE(line.admit(1).cold);
  EXPECT_THAT(adapters(line), ElementsAre(3, 2));
  EXPECT_EQ(line.load().rank_tokens, 160);
  EXPECT_TRUE(line.give_up_late(1e6, false).empty());
}

TEST(SimLine, ClustersAdaptersAsAnEngineDoes) {
  SimLine line({.adapter_clusters = 2});
  for (const std::int32_t adapter : {5, 1, 2, 1, 2}) line.add(a_request(adapter), false);
  const std::uint64_t in_batch[] = {adapter_number(a_request(1))};
  line.arrange(in_batch);
  EXPECT_THAT(adapters(line), ElementsAre(5, 1, 1, 2, 2));
  line.add(a_request(1), false);
  const std::uint64_t both[] = {adapter_number(a_request(1)), adapter_number(a_request(2))};
  line.arrange(both);
  EXPECT_THAT(adapters(line), ElementsAre(1, 2, 1, 2, 1, 5));
}

TEST(SimLine, PutsTheNewestFirstHoweverLongOthersHaveWaited) {
  SimLine line({.newest_first = true});
  line.add(a_request(1), false);
  for (std::int32_t adapter = 2; adapter < 200; ++adapter) {
    line.add(a_request(adapter), false);
    line.arrange({});
    EXPECT_EQ(line.admit(0).request.adapter.value(), adapter);
  }
  EXPECT_THAT(adapters(line), ElementsAre(1));
  EXPECT_TRUE(line.give_up_late(1e6, false).empty());
}

TEST(SimLine, GivesUpWhoWouldMissItsDeadline) {
  SimLine line({.ttft_deadline_s = 1});
  line.add(a_request(1, 0), false);
  line.add(a_request(2, 0.5), false);
  EXPECT_TRUE(line.give_up_late(0.9, false).empty());
  line.saw_prefill(0.2, 10);
  EXPECT_TRUE(line.give_up_late(0.95, true).empty());  // nothing runs, so it may begin in time
  ASSERT_EQ(line.give_up_late(0.95, false).size(), 1U);
  EXPECT_THAT(adapters(line), ElementsAre(2));
  EXPECT_EQ(line.load().requests, 1);
  EXPECT_EQ(line.give_up_late(1.6, true).size(), 1U);
  EXPECT_EQ(line.rank_sum(), 0);
}

}  // namespace
}  // namespace tandem
