// Threads that keep a program under test busy, and waiting for what they do to it.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace tandem {

// Within a minute: what is tested is never the limit, the machine may be busy with others.
bool eventually(const std::function<bool()>& happens, const std::function<void()>& meanwhile = {});

// Threads that do one thing again and again, until stop() or the first that should not have been.
// Thread-safe.
class Crowd {
 public:
  using Act = std::function<void(std::mt19937& random)>;

  Crowd() = default;
  ~Crowd() { stop(); }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  void add(Act act, unsigned seed);
  void stop();  // and wait; by one thread

  // By the acts: this went as it should; this did not.
  void count(const std::string& what);
  void fail(const std::string& what);

  bool failed() const { return failed_; }
  std::string failure() const;  // the first; empty: none so far
  std::map<std::string, int> counts() const;

 private:
  std::atomic<bool> stop_ = false;
  std::atomic<bool> failed_ = false;
  mutable std::mutex mutex_;
  std::string failure_;                // guarded by mutex_
  std::map<std::string, int> counts_;  // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace tandem
