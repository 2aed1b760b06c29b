// The only compute threads of the device. A caller (a stream's thread) takes part in its own
// parallel_for, so a pool of n threads starts n - 1.
//
// This is not the loader's ThreadTeam. Pool threads stand for the device's cores: they are pinned,
// spin for the microseconds between operations, serve several streams alternately, and pass a
// failure back to the caller. A team sleeps, as its copies take milliseconds and are infrequent.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace tandem::host {

class ThreadPool {
 public:
  // `num_threads` >= 1 counts the caller. Thread i is pinned to cpus[i % size] if any are given.
  // Callers may use all of these CPUs (prepare_caller), because there may be several callers.
  ThreadPool(int num_threads, std::vector<int> cpus);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return num_threads_; }
  // Restricts the calling thread to the pool's CPUs, and the libraries it calls to one thread.
  void prepare_caller() const;

  // Calls body(task, worker) once for every task in [0, num_tasks), worker in [0, num_threads), and
  // returns when all have returned. No two calls with the same worker run at once. Rethrows the
  // first exception; tasks not yet begun are then skipped. Concurrent callers wait for each other.
  // A body must not call parallel_for.
  template <typename Body>
  void parallel_for(std::int64_t num_tasks, Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    run(
        num_tasks,
        [](void* context, std::int64_t task, int worker) {
          (*static_cast<Plain*>(context))(task, worker);
        },
        const_cast<void*>(static_cast<const void*>(&body)));
  }

 private:
  using Call = void (*)(void* context, std::int64_t task, int worker);

  void run(std::int64_t num_tasks, Call call, void* context);
  void run_tasks(int worker);
  void worker_loop(int worker);
  void work_alone(std::int64_t num_tasks, Call call, void* context);

  // state_: epoch (16 bits) | open (1) | threads inside the job (15). A thread joins an open job by
  // adding one; the caller closes it when no task is left and waits only for the threads inside, so
  // that a thread which the kernel has not yet scheduled delays nobody.
  static constexpr std::uint32_t kInside = 0x7fff;
  static constexpr std::uint32_t kOpen = 0x8000;
  static constexpr std::uint32_t kEpoch = 0x10000;

  const int num_threads_;
  const std::vector<int> cpus_;
  bool spin_ = false;
  std::mutex turn_;  // held by the caller whose job runs; guards the four fields below

  Call call_ = nullptr;
  void* context_ = nullptr;
  std::int64_t num_tasks_ = 0;
  std::exception_ptr failure_;  // written by the thread that sets failed_

  alignas(64) std::atomic<std::int64_t> next_task_{0};
  alignas(64) std::atomic<std::uint32_t> state_{0};
  std::atomic<bool> failed_{false};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

}  // namespace tandem::host
