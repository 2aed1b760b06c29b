#include "engine/loader/thread_team.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <optional>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/limits/cpu_quota.h"
#include "base/threads/thread_cpus.h"

namespace tandem {
namespace {

// Threads of all borrowed teams. Relaxed: it only limits a count and publishes no data.
std::atomic<int> g_borrowed{0};

// The number of threads that compute at once. More than a container's CPU quota allows would be
// throttled together with all the others.
int threads_of_machine() {
  static const int count = [] {
    const auto cores = static_cast<int>(std::thread::hardware_concurrency());
    const std::optional<CpuQuota> quota = read_cpu_quota();
    return std::max(1, quota ? std::min(cores, quota->whole_cores()) : cores);
  }();
  return count;
}

int borrow(std::size_t most) {
  static const int limit = threads_of_machine() - 1;
  int taken = g_borrowed.load(std::memory_order_relaxed);
  int wanted = 0;
  do {
    wanted = static_cast<int>(std::min<std::size_t>(most, std::max(0, limit - taken)));
  } while (!g_borrowed.compare_exchange_weak(taken, taken + wanted, std::memory_order_relaxed));
  return wanted;
}

}  // namespace

ThreadTeam::ThreadTeam(int helpers, std::string_view name, std::span<const int> cpus) {
  TANDEM_CHECK(cpus.empty() || cpus.size() == static_cast<std::size_t>(helpers));
  for (int i = 0; i < helpers; ++i) {
    try {
      threads_.emplace_back(
          [this, thread = std::size_t(i) + 1,
           cpu = cpus.empty() ? -1 : cpus[static_cast<std::size_t>(i)],
           shown = fmt::format("{}-{}", name, i + 1).substr(0, 15)] { help(thread, shown, cpu); });
    } catch (const std::system_error&) {  // the threads already started do all the work
      break;
    }
  }
}

ThreadTeam::~ThreadTeam() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

int ThreadTeam::helpers_for_machine() {
  constexpr int kMost = 15;
  return std::clamp(threads_of_machine() - 2, 1, kMost);
}

void ThreadTeam::run(std::size_t count, const Body& body) {
  {
    const std::lock_guard lock(mutex_);
    body_ = &body;
    failure_ = nullptr;
    count_ = count;
    next_.store(0, std::memory_order_relaxed);
    open_ = true;
    ++round_;
  }
  changed_.notify_all();
  work(0);
  std::unique_lock lock(mutex_);
  open_ = false;
  idle_.wait(lock, [this] { return busy_ == 0; });
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void ThreadTeam::help(std::size_t thread, const std::string& name, int cpu) {
  pthread_setname_np(pthread_self(), name.c_str());
  if (cpu >= 0) pin_this_thread(std::array{cpu}, name);
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || (open_ && round_ != seen); });
    if (stopping_) return;
    seen = round_;
    ++busy_;
    lock.unlock();
    work(thread);
    lock.lock();
    if (--busy_ == 0) idle_.notify_one();
  }
}

void ThreadTeam::work(std::size_t thread) {
  while (thread == 0 || !leaves_ || !leaves_(thread)) {
    const std::size_t i = next_.fetch_add(1, std::memory_order_relaxed);
    if (i >= count_) return;
    try {
      (*body_)(i, thread);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (failure_ == nullptr) failure_ = std::current_exception();
    }
  }
}

BorrowedTeam::BorrowedTeam(std::size_t most_helpers)
    : helpers_(borrow(most_helpers)), team_(helpers_) {}

BorrowedTeam::~BorrowedTeam() {
  g_borrowed.fetch_sub(helpers_, std::memory_order_relaxed);
}

void parallel_chunks(std::size_t count, std::size_t chunk,
                     const std::function<void(std::size_t, std::size_t)>& body) {
  TANDEM_CHECK(chunk > 0);
  const std::size_t num_chunks = count / chunk + (count % chunk != 0 ? 1 : 0);
  if (num_chunks == 0) return;
  BorrowedTeam borrowed(num_chunks - 1);
  borrowed.team().run(num_chunks, [&](std::size_t i, std::size_t) {
    body(i * chunk, i * chunk + std::min(chunk, count - i * chunk));
  });
}

}  // namespace tandem
