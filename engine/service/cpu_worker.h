// A CPU worker as people see it.
#pragma once

#include <cstdint>
#include <string>

namespace tandem {

struct CpuWorker {
  int node = -1;  // NUMA node; -1: of any
  int cpu = -1;   // that it is bound to
  int group = 0;
  int worker_slot = 0;
  int pid = 0;            // 0: it does not run
  bool ours = false;      // started by the engine
  bool left_out = false;  // it died too often
  std::uint64_t restarts = 0;
  std::uint64_t jobs = 0;
  double busy_s = 0;     // since it was started
  std::string last_end;  // how it ended last; empty: it never did
};

}  // namespace tandem
