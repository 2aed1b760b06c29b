#include "gpu/host/context/thread_pool.h"

#include <chrono>
#include <span>
#include <string_view>

#include "base/check.h"
#include "base/onednn/matmul.h"
#include "base/threads/thread_cpus.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tandem::host {
namespace {

// Longer than the gaps between a layer's operations, shorter than a scheduler tick.
constexpr auto kSpin = std::chrono::microseconds(50);
constexpr std::string_view kWhose = "a compute thread";

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Returns true as soon as `done()` is true; false when the spinning time has ended.
template <typename Done>
bool spin_until(bool allowed, Done done) {
  if (done()) return true;
  if (!allowed) return false;
  const auto deadline = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

}  // namespace

ThreadPool::ThreadPool(int num_threads, std::vector<int> cpus)
    : num_threads_(num_threads), cpus_(std::move(cpus)) {
  TANDEM_CHECK(num_threads >= 1 && num_threads < static_cast<int>(kInside), "{} threads",
               num_threads);
  // With fewer cores than threads, a spinning thread would only keep a working one from running.
  spin_ = num_threads > 1 && static_cast<int>(std::thread::hardware_concurrency()) >= num_threads;
  threads_.reserve(static_cast<std::size_t>(num_threads) - 1);
  for (int i = 1; i < num_threads; ++i) {
    threads_.emplace_back([this, i] { worker_loop(i); });
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  state_.fetch_add(kEpoch);
  state_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::prepare_caller() const {
  use_one_thread();
  if (!cpus_.empty()) pin_this_thread(cpus_, kWhose);
}

void ThreadPool::run(std::int64_t num_tasks, Call call, void* context) {
  if (num_tasks <= 0) return;
  if (num_tasks == 1 || num_threads_ == 1) return work_alone(num_tasks, call, context);
  const std::lock_guard turn(turn_);
  call_ = call;
  context_ = context;
  num_tasks_ = num_tasks;
  next_task_.store(0, std::memory_order_relaxed);
  failed_.store(false, std::memory_order_relaxed);
  failure_ = nullptr;
  // release: pairs with the acquire in worker_loop's join, which then sees the job
  state_.store(((state_.load(std::memory_order_relaxed) & ~(kEpoch - 1)) + kEpoch) | kOpen,
               std::memory_order_release);
  state_.notify_all();
  run_tasks(0);
  state_.fetch_and(~kOpen, std::memory_order_relaxed);
  // acquire: pairs with the release in worker_loop's leave, so the caller sees every task's writes
  const auto nobody_inside = [&] {
    return (state_.load(std::memory_order_acquire) & kInside) == 0;
  };
  while (!spin_until(spin_, nobody_inside)) {
    const std::uint32_t seen = state_.load(std::memory_order_acquire);
    if ((seen & kInside) != 0) state_.wait(seen, std::memory_order_acquire);
  }
  if (failed_.load(std::memory_order_relaxed)) {
    std::rethrow_exception(std::exchange(failure_, nullptr));
  }
}

void ThreadPool::work_alone(std::int64_t num_tasks, Call call, void* context) {
  for (std::int64_t task = 0; task < num_tasks; ++task) call(context, task, 0);
}

void ThreadPool::run_tasks(int worker) {
  while (true) {
    const std::int64_t task = next_task_.fetch_add(1, std::memory_order_relaxed);
    if (task >= num_tasks_) return;
    try {
      call_(context_, task, worker);
    } catch (...) {
      // Only the first failing task writes failure_; the caller reads it after all have left.
      if (!failed_.exchange(true)) failure_ = std::current_exception();
      next_task_.store(num_tasks_, std::memory_order_relaxed);
    }
  }
}

void ThreadPool::worker_loop(int worker) {
  use_one_thread();
  if (!cpus_.empty()) {
    pin_this_thread(std::span(cpus_).subspan(static_cast<std::size_t>(worker) % cpus_.size(), 1),
                    kWhose);
  }
  std::uint32_t last_epoch = 0;
  while (true) {
    std::uint32_t seen = 0;
    const auto job_or_stop = [&] {
      // acquire: pairs with the destructor's bump of the epoch, so that stop_ is seen with it
      seen = state_.load(std::memory_order_acquire);
      return stop_.load(std::memory_order_relaxed) ||
             ((seen & kOpen) != 0 && (seen & ~(kEpoch - 1)) != last_epoch);
    };
    while (!spin_until(spin_, job_or_stop)) state_.wait(seen, std::memory_order_relaxed);
    if (stop_.load(std::memory_order_relaxed)) return;
    if (!state_.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire,
                                      std::memory_order_relaxed)) {
      continue;
    }
    last_epoch = seen & ~(kEpoch - 1);
    run_tasks(worker);
    const std::uint32_t left = state_.fetch_sub(1, std::memory_order_release) - 1;
    if ((left & (kOpen | kInside)) == 0) state_.notify_all();
  }
}

}  // namespace tandem::host
