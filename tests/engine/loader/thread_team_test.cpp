#include "engine/loader/thread_team.h"
#include "base/threads/thread_cpus.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <latch>
#include <new>
#include <vector>

namespace tandem {
namespace {

TEST(ThreadTeam, DoesEveryIndexOnceRoundAfterRound) {
  for (const int helpers : {0, 1, 5}) {
    ThreadTeam team(helpers);
    for (std::size_t count = 0; count < 200; ++count) {
      std::vector<int> done(count);
      team.run(count, [&](std::size_t i, std::size_t thread) {
        EXPECT_LT(thread, team.num_threads());
        ++done[i];
      });
      EXPECT_EQ(done, std::vector<int>(count, 1)) << helpers << " helpers";
    }
  }
}

TEST(ThreadTeam, WorksOnAllThreadsAtOnce) {
  ThreadTeam team(3);
  for (int round = 0; round < 20; ++round) {
    std::latch all(4);
    team.run(4, [&](std::size_t, std::size_t) { all.arrive_and_wait(); });
    EXPECT_TRUE(all.try_wait());
  }
}

TEST(ThreadTeam, TakesIndicesInOrderSoThatLaterOnesMayWaitForEarlierOnes) {
  ThreadTeam team(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::atomic<bool>> done(40);
    team.run(done.size(), [&](std::size_t i, std::size_t) {
      if (i >= 20) done[i - 20].wait(false);
      done[i] = true;
      done[i].notify_all();
    });
    for (const auto& each : done) EXPECT_TRUE(each);
  }
}

TEST(ThreadTeam, GivesEachOfItsThreadsANumberOfItsOwn) {
  ThreadTeam team(3);
  std::latch all(4);
  std::vector<int> calls(4);
  team.run(4, [&](std::size_t, std::size_t thread) {
    ++calls[thread];
    all.arrive_and_wait();
  });
  EXPECT_EQ(calls, std::vector<int>(4, 1));
}

TEST(ThreadTeam, GoesOnWithoutHelpersThatAreToLeave) {
  std::atomic<bool> needed_elsewhere{false};
  ThreadTeam team(3);
  team.leave_when([&](std::size_t thread) { return thread >= 2 && needed_elsewhere; });
  std::latch all(4);
  team.run(4, [&](std::size_t, std::size_t) { all.arrive_and_wait(); });
  needed_elsewhere = true;
  std::vector<std::atomic<int>> done(200), by(4);
  team.run(done.size(), [&](std::size_t i, std::size_t thread) {
    ++done[i];
    ++by[thread];
  });
  for (const auto& each : done) EXPECT_EQ(each, 1);
  EXPECT_EQ(by[2] + by[3], 0);
  needed_elsewhere = false;
  std::latch again(4);
  team.run(4, [&](std::size_t, std::size_t) { again.arrive_and_wait(); });
}

// The calling thread cannot leave the work to others.
TEST(ThreadTeam, DoesItAllOnTheCallersThreadWhenAllAreToLeave) {
  ThreadTeam team(3);
  team.leave_when([](std::size_t) { return true; });
  std::vector<int> done(50);
  team.run(done.size(), [&](std::size_t i, std::size_t thread) {
    EXPECT_EQ(thread, 0U);
    ++done[i];
  });
  EXPECT_EQ(done, std::vector<int>(50, 1));
}

TEST(ThreadTeam, RunsEachHelperOnItsCpu) {
  const std::vector<int> allowed = cpus_of_thread();
  const std::array cpus = {allowed.back(), allowed.front()};
  ThreadTeam team(2, "pinned", cpus);
  std::latch all(3);
  std::vector<int> seen(3, -1);
  team.run(3, [&](std::size_t, std::size_t thread) {
    all.arrive_and_wait();
    seen[thread] = sched_getcpu();
  });
  EXPECT_EQ(seen[1], cpus[0]);
  EXPECT_EQ(seen[2], cpus[1]);
}

TEST(ThreadTeam, RethrowsAnExceptionWhenAllHaveBeenCalledAndGoesOn) {
  ThreadTeam team(3);
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> called{0};
    const auto body = [&](std::size_t i, std::size_t) {
      ++called;
      if (i % 7 == 3) throw std::bad_alloc();
    };
    EXPECT_THROW(team.run(40, body), std::bad_alloc);
    EXPECT_EQ(called, 40);
    team.run(5, [&](std::size_t, std::size_t) { ++called; });
    EXPECT_EQ(called, 45);
  }
}

TEST(ParallelChunks, CoverAllOfItOnceOneWithinAnother) {
  std::vector<int> done(1000);
  parallel_chunks(10, 3, [&](std::size_t outer, std::size_t end) {
    for (; outer < end; ++outer) {
      parallel_chunks(100, 7, [&](std::size_t i, std::size_t last) {
        for (; i < last; ++i) ++done[outer * 100 + i];
      });
    }
  });
  EXPECT_EQ(done, std::vector<int>(1000, 1));
  parallel_chunks(0, 1, [](std::size_t, std::size_t) { FAIL() << "there is nothing"; });
}

}  // namespace
}  // namespace tandem
