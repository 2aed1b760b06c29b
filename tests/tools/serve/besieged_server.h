// What the tests share that keep a real server, its CPU workers and its clients in trouble.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/tools/process.h"

namespace tandem {

// The last cpus that this process may use, `most` of them, as `tandem serve` takes them.
struct WorkerCpus {
  std::string list;
  int count = 0;
};
WorkerCpus worker_cpus(int most);

struct ServeChoices {
  std::string mode;  // of adapters; cached: all of them on the device
  std::filesystem::path adapters = "data/demo-llama/adapters";
  std::filesystem::path adapter_root = {};  // empty: none
  std::string device = "host";
  std::string link_gbps = "0";  // "0": as fast as it is; for modes that load
  std::string deadline_ms = "500";
  int max_workers = 2;
};
// `tandem serve` of the demo model with CPU workers. In f32, or a near-tie would fall as the batch
// wants it.
std::vector<std::string> serve_with_workers(const ServeChoices& choices);

// Within a minute: what is tested is never the limit, the machine may be busy with others.
bool eventually(const std::function<bool()>& happens, const std::function<void()>& meanwhile = {});

// Ends by this signal, well and in time, and nothing of it is left.
void expect_end(ReadyServer& server, int signal);

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
