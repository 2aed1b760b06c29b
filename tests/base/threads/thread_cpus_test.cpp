#include "base/threads/thread_cpus.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <future>
#include <limits>
#include <thread>
#include <vector>

namespace tandem {
namespace {

TEST(CpusOfThread, AreThoseOfTheThreadThatIsAskedFor) {
  const std::vector<int> own = cpus_of_thread();
  ASSERT_FALSE(own.empty());
  EXPECT_EQ(cpus_of_thread(gettid()), own);
  std::thread([&] {
    pin_this_thread(std::array{own.back()}, "a test");
    EXPECT_EQ(cpus_of_thread(gettid()), std::vector<int>{own.back()});
    EXPECT_EQ(cpus_of_thread(getpid()), own) << "the first thread's";
  }).join();
}

TEST(CpusOfThread, AreNoneOfAThreadThatDoesNotExist) {
  EXPECT_EQ(cpus_of_thread(std::numeric_limits<pid_t>::max()), std::vector<int>());
}

TEST(PinThisThread, LeavesOtherThreadsWhereTheyAre) {
  const std::vector<int> before = cpus_of_thread();
  const std::array<int, 1> last = {before.back()};
  std::vector<int> pinned, started;
  std::thread([&] {
    pin_this_thread(last, "a test");
    pinned = cpus_of_thread();
    std::thread([&] { started = cpus_of_thread(); }).join();
  }).join();
  EXPECT_EQ(pinned, std::vector<int>{before.back()});
  EXPECT_EQ(started, pinned);
  EXPECT_EQ(cpus_of_thread(), before);
}

TEST(PinThread, PinsAnotherOne) {
  const std::vector<int> before = cpus_of_thread();
  const std::array<int, 1> last = {before.back()};
  std::promise<void> pinned;
  std::vector<int> after;
  std::thread other([&] {
    pinned.get_future().wait();
    after = cpus_of_thread();
  });
  pin_thread(other.native_handle(), last, "a test");
  pinned.set_value();
  other.join();
  EXPECT_EQ(after, std::vector<int>{before.back()});
  EXPECT_EQ(cpus_of_thread(), before);
}

TEST(PinThisThread, LeavesTheThreadWhereItIsIfThereIsNoSuchCpu) {
  std::vector<int> before, after;
  std::thread([&] {
    before = cpus_of_thread();
    pin_this_thread(std::array{-1, CPU_SETSIZE, CPU_SETSIZE - 1}, "a test");
    after = cpus_of_thread();
  }).join();
  EXPECT_EQ(after, before);
}

}  // namespace
}  // namespace tandem
