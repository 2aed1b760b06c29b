// The state of a CPU worker, for display.
#pragma once

#include <cstdint>
#include <string>

namespace tandem {

struct CpuWorker {
  int node = -1;  // NUMA node; -1: any
  int cpu = -1;   // the CPU that it is bound to
  int group = 0;
  int worker_slot = 0;
  int pid = 0;            // 0: it is not running
  bool ours = false;      // started by the engine
  bool left_out = false;  // excluded because it died too often
  std::uint64_t restarts = 0;
  std::uint64_t jobs = 0;
  double busy_s = 0;     // since it was started
  std::string last_end;  // how it last ended; empty: it never ended
};

}  // namespace tandem
