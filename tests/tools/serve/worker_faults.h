// Faults for the CPU workers of a running engine: signals, and garbage in every word of shared
// memory that a worker may write.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "shm/mailbox.h"

namespace tandem {

// The `tandem worker` processes of an engine according to the kernel, without zombies.
std::vector<pid_t> workers_of(pid_t engine);
// The names in /dev/shm of an engine, running or dead.
std::vector<std::string> regions_of(pid_t engine);

// One thread.
class FaultInjector {
 public:
  // Aborts the test program if the engine does not exist or has no worker slots.
  FaultInjector(pid_t engine, unsigned seed);

  // Causes one fault: random, but the first two are deadly. Temporary ones (a pause, a slow worker)
  // end in a later call, or in heal().
  void act();
  // Lets stopped workers continue.
  void heal();
  // The most recent faults, one per line.
  std::string history() const;

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Pause {
    TimePoint end;
    pid_t worker;
  };

  void signal_worker(int number, const char* what);
  void pause_worker();
  void slow_worker_down();
  void write_garbage();
  std::uint64_t garbage(const Mailbox& mailbox);
  std::uint32_t garbage_pid(const Mailbox& mailbox);
  void continue_due(TimePoint now);
  pid_t some_worker();  // 0: none
  std::uint64_t below(std::uint64_t end) { return random_() % end; }
  void note(const std::string& what);

  pid_t engine_;
  std::mt19937_64 random_;
  std::uint64_t acts_ = 0;
  std::vector<Mailbox> mailboxes_;
  std::vector<Pause> pauses_;
  TimePoint begin_;
  std::deque<std::string> history_;
};

}  // namespace tandem
