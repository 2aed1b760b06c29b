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

// Kept ready for short work: waking them costs less than starting them.
class ThreadTeam {
 public:
  // Beside the thread that calls run(). Where there is no thread to be had, fewer. The system shows
  // them as "name-1" and so on; it takes 15 letters of that. Each is pinned to one of `cpus`, if
  // there are any: as many as helpers.
  explicit ThreadTeam(int helpers, std::string_view name = "loader",
                      std::span<const int> cpus = {});
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  // For copying from the page cache: more do not get more out of a machine's memory, and one core
  // is left to who waits for what is read.
  static int helpers_for_machine();

  // A helper of which this is true leaves a round, between two of its indices, and is back in the
  // next. Set before run(); called on all of them at once.
  void leave_when(std::function<bool(std::size_t thread)> leaves) { leaves_ = std::move(leaves); }

  // With the one that calls run().
  std::size_t num_threads() const { return threads_.size() + 1; }

  // Calls body(i, thread) once for every i in [0, count), on this thread and the others, taken in
  // order: a body may wait for those of smaller indices. `thread` is in [0, num_threads()). Returns
  // when all have returned; who has not woken up by then is not waited for. One call at a time.
  // Rethrows the first exception of any body, when the others have been called nevertheless.
  using Body = std::function<void(std::size_t i, std::size_t thread)>;
  void run(std::size_t count, const Body& body);

 private:
  void help(std::size_t thread, const std::string& name, int cpu);
  void work(std::size_t thread);

  std::function<bool(std::size_t thread)> leaves_;
  std::mutex mutex_;
  std::condition_variable changed_;  // open_, round_ or stopping_
  std::condition_variable idle_;
  // All but next_ are guarded by mutex_; body_ and count_ stay as they are while a round is open or
  // anybody is busy.
  const Body* body_ = nullptr;
  std::exception_ptr failure_;
  std::size_t count_ = 0;
  std::uint64_t round_ = 0;
  bool open_ = false;  // helpers may join
  int busy_ = 0;       // helpers that have
  bool stopping_ = false;
  // Relaxed: each index is taken once whatever the order; mutex_ publishes what the bodies wrote.
  std::atomic<std::size_t> next_{0};
  std::vector<std::thread> threads_;
};

// A team for one piece of work, on threads that live as long: as many helpers as it asks for, but
// all such teams of the process together have no more than the machine has cores. Any number of
// them at once, one within another's loop as well.
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

// Calls body(begin, end) for every piece of `chunk` out of [0, count), the last one shorter, on a
// borrowed team. As ThreadTeam::run().
void parallel_chunks(std::size_t count, std::size_t chunk,
                     const std::function<void(std::size_t, std::size_t)>& body);

}  // namespace tandem
