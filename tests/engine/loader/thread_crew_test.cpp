#include "engine/loader/thread_crew.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <vector>

namespace tandem {
namespace {

TEST(ThreadCrew, DoesEveryIndexOnceRoundAfterRound) {
  for (const int helpers : {0, 1, 5}) {
    ThreadCrew crew(helpers);
    for (std::size_t count = 0; count < 200; ++count) {
      std::vector<int> done(count);
      crew.run(count, [&](std::size_t i) { ++done[i]; });
      EXPECT_EQ(done, std::vector<int>(count, 1)) << helpers << " helpers";
    }
  }
}

TEST(ThreadCrew, WorksOnAllThreadsAtOnce) {
  ThreadCrew crew(3);
  for (int round = 0; round < 20; ++round) {
    std::latch all(4);
    crew.run(4, [&](std::size_t) { all.arrive_and_wait(); });
    EXPECT_TRUE(all.try_wait());
  }
}

TEST(ThreadCrew, TakesIndicesInOrderSoThatLaterOnesMayWaitForEarlierOnes) {
  ThreadCrew crew(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::atomic<bool>> done(40);
    crew.run(done.size(), [&](std::size_t i) {
      if (i >= 20) done[i - 20].wait(false);
      done[i] = true;
      done[i].notify_all();
    });
    for (const auto& each : done) EXPECT_TRUE(each);
  }
}

}  // namespace
}  // namespace tandem
