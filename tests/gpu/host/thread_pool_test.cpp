#include "gpu/host/context/thread_pool.h"

#include <gmock/gmock.h>

#include <atomic>
#include <latch>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "base/threads/thread_cpus.h"

namespace tandem::host {
namespace {

TEST(ThreadPool, RunsEveryTaskOnceForAnyNumberOfThreadsAndTasks) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads, {});
    for (const int tasks : {0, 1, 2, 7, 100, 1000}) {
      std::vector<int> runs(static_cast<std::size_t>(tasks), 0);
      pool.parallel_for(tasks, [&](std::int64_t task, int worker) {
        ASSERT_GE(worker, 0);
        ASSERT_LT(worker, threads);
        ++runs[static_cast<std::size_t>(task)];
      });
      EXPECT_THAT(runs, testing::Each(1)) << threads << " threads, " << tasks << " tasks";
    }
  }
}

TEST(ThreadPool, SeesItsTasksWritesAfterEveryOneOfManySmallRegions) {
  ThreadPool pool(4, {});
  std::vector<std::int64_t> values(8, 0);
  for (std::int64_t round = 1; round <= 5000; ++round) {
    pool.parallel_for(
        8, [&](std::int64_t task, int) { values[static_cast<std::size_t>(task)] += task; });
    ASSERT_EQ(std::accumulate(values.begin(), values.end(), std::int64_t{0}), 28 * round);
  }
}

TEST(ThreadPool, NeverRunsOneWorkerTwiceAtOnce) {
  ThreadPool pool(4, {});
  std::vector<std::atomic<int>> inside(4);
  std::atomic<bool> overlapped{false};
  for (int round = 0; round < 200; ++round) {
    pool.parallel_for(32, [&](std::int64_t, int worker) {
      auto& mine = inside[static_cast<std::size_t>(worker)];
      if (mine.fetch_add(1) != 0) overlapped = true;
      mine.fetch_sub(1);
    });
  }
  EXPECT_FALSE(overlapped);
}

TEST(ThreadPool, UsesAllItsThreadsWhenTasksWaitForEachOther) {
  ThreadPool pool(3, {});
  std::latch all_here(3);
  pool.parallel_for(3, [&](std::int64_t, int) { all_here.arrive_and_wait(); });
}

TEST(ThreadPool, LetsSeveralCallersTakeTurns) {
  ThreadPool pool(3, {});
  std::atomic<std::int64_t> total{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int round = 0; round < 300; ++round) {
        // Plain, not atomic: only this region's tasks and this caller touch it, one slot each.
        std::vector<std::int64_t> parts(5, 0);
        pool.parallel_for(
            5, [&](std::int64_t task, int) { parts[static_cast<std::size_t>(task)] = task; });
        total += std::accumulate(parts.begin(), parts.end(), std::int64_t{0});
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total, 4 * 300 * 10);
}

TEST(ThreadPool, RethrowsATasksExceptionAndStaysUsable) {
  ThreadPool pool(3, {});
  for (int round = 0; round < 50; ++round) {
    EXPECT_THROW(pool.parallel_for(20,
                                   [&](std::int64_t task, int) {
                                     if (task % 7 == 3) throw std::runtime_error("bad task");
                                   }),
                 std::runtime_error);
  }
  std::atomic<int> runs{0};
  pool.parallel_for(20, [&](std::int64_t, int) { ++runs; });
  EXPECT_EQ(runs, 20);
}

TEST(ThreadPool, PinsItsThreadsToTheCpusGiven) {
  const int cpu = cpus_of_thread().front();
  ThreadPool pool(2, {cpu});
  std::latch both(2);
  std::atomic<int> elsewhere{0};
  std::thread caller([&] {
    pool.prepare_caller();
    pool.parallel_for(2, [&](std::int64_t, int) {
      both.arrive_and_wait();
      if (sched_getcpu() != cpu) ++elsewhere;
    });
  });
  caller.join();
  EXPECT_EQ(elsewhere, 0);
}

}  // namespace
}  // namespace tandem::host
