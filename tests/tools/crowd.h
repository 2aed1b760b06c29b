// Threads that keep a program under test busy while the test waits for an effect.
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

// Waits up to a minute, which is no limit under test: the machine may be busy.
bool eventually(const std::function<bool()>& happens, const std::function<void()>& meanwhile = {});

// Threads that repeat an action until stop() or the first failure.
// Thread-safe.
class Crowd {
 public:
  using Act = std::function<void(std::mt19937& random)>;

  Crowd() = default;
  ~Crowd() { stop(); }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  void add(Act act, unsigned seed);
  void stop();  // also waits for them; called by one thread

  // Called by the actions: a success, and a failure.
  void count(const std::string& what);
  void fail(const std::string& what);

  bool failed() const { return failed_; }
  std::string failure() const;  // the first failure; empty: none so far
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
