#include "base/thread_cpus.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <array>
#include <thread>
#include <vector>

namespace tandem {
namespace {

std::vector<int> cpus_of_this_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(pthread_getaffinity_np(pthread_self(), sizeof set, &set), 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<unsigned>(cpu), &set)) cpus.push_back(cpu);
  }
  return cpus;
}

TEST(PinThisThread, LeavesOtherThreadsWhereTheyAre) {
  const std::vector<int> before = cpus_of_this_thread();
  const std::array<int, 1> last = {before.back()};
  std::vector<int> pinned, started;
  std::thread([&] {
    pin_this_thread(last, "a test");
    pinned = cpus_of_this_thread();
    std::thread([&] { started = cpus_of_this_thread(); }).join();
  }).join();
  EXPECT_EQ(pinned, std::vector<int>{before.back()});
  EXPECT_EQ(started, pinned);
  EXPECT_EQ(cpus_of_this_thread(), before);
}

TEST(PinThisThread, LeavesTheThreadWhereItIsIfThereIsNoSuchCpu) {
  std::vector<int> before, after;
  std::thread([&] {
    before = cpus_of_this_thread();
    pin_this_thread(std::array{-1, CPU_SETSIZE, CPU_SETSIZE - 1}, "a test");
    after = cpus_of_this_thread();
  }).join();
  EXPECT_EQ(after, before);
}

}  // namespace
}  // namespace tandem
