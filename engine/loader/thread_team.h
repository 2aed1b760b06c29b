// Threads that share one loop, for work bound by memory or by the disk.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace tandem {

// The threads are kept for short work, because waking them costs less than starting them.
class ThreadTeam {
 public:
  // `helpers` is the number of threads besides the one that calls run(). Fewer are used if the
  // system cannot start more. They are named "name-1" and so on; the system keeps 15 characters. If
  // `cpus` is not empty, it has one entry per helper, and each helper is pinned to its own.
  explicit ThreadTeam(int helpers, std::string_view name = "loader",
                      std::span<const int> cpus = {});
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  // The number of helpers for copying from the page cache. More do not increase the memory
  // throughput, and one core is left to the thread that waits for the data.
  static int helpers_for_machine();

  // A helper for which `leaves` returns true leaves the current round between two indices and takes
  // part in the next. Set it before run(); it is called on all helpers concurrently.
  void leave_when(std::function<bool(std::size_t thread)> leaves) { leaves_ = std::move(leaves); }

  // Includes the thread that calls run().
  std::size_t num_threads() const { return threads_.size() + 1; }

  // Calls body(i, thread) once for every i in [0, count), on this thread and the helpers. The
  // indices are taken in order, so a body may wait for those of smaller indices. `thread` is in [0,
  // num_threads()). Returns when all calls have returned; helpers that have not woken up by then
  // are not waited for. One call at a time. After an exception the other bodies are still called;
  // then the first exception is rethrown.
  using Body = std::function<void(std::size_t i, std::size_t thread)>;
  void run(std::size_t count, const Body& body);

 private:
  void help(std::size_t thread, const std::string& name, int cpu);
  void work(std::size_t thread);

  std::function<bool(std::size_t thread)> leaves_;
  std::mutex mutex_;
  std::condition_variable changed_;  // signals changes of open_, round_ or stopping_
  std::condition_variable idle_;
  // All but next_ are guarded by mutex_. body_ and count_ do not change while a round is open or a
  // helper is busy.
  const Body* body_ = nullptr;
  std::exception_ptr failure_;
  std::size_t count_ = 0;
  std::uint64_t round_ = 0;
  bool open_ = false;  // helpers may join the round
  int busy_ = 0;       // helpers that have joined it
  bool stopping_ = false;
  // Relaxed: each index is taken once in any case; mutex_ publishes what the bodies wrote.
  std::atomic<std::size_t> next_{0};
  std::vector<std::thread> threads_;
};

// A team for one piece of work, whose threads live as long as it does. It has as many helpers as
// requested, but all such teams of the process together have no more than the machine has cores.
// Any number of teams may exist at once, also nested in another team's loop.
class BorrowedTeam {
 public:
  explicit BorrowedTeam(std::size_t most_helpers);
  ~BorrowedTeam();
  BorrowedTeam(const BorrowedTeam&) = delete;
  BorrowedTeam& operator=(const BorrowedTeam&) = delete;

  ThreadTeam& team() { return team_; }

 private:
  const int helpers_;
  ThreadTeam team_;
};

// Calls body(begin, end) for every piece of `chunk` indices out of [0, count), the last one
// shorter, on a borrowed team. Otherwise like ThreadTeam::run().
void parallel_chunks(std::size_t count, std::size_t chunk,
                     const std::function<void(std::size_t, std::size_t)>& body);

}  // namespace tandem
