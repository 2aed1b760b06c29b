// Claims of cores by the engines of this machine, so that two of them do not compute on the same
// ones. Each engine lists its cores in a region of its own, /tandem-PID-RANDOM-cores, whose lock
// ends with the process (region.h). An engine reads the claims of the others before it plans.
//
// Engines of other users are not seen, because their regions may not be read, nor are engines in
// containers that do not share /dev/shm.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "shm/region.h"

namespace tandem {

inline constexpr std::uint32_t kCoresVersion = 1;
inline constexpr int kMaxClaimedCpu = (1 << 16) - 1;

struct ClaimedCores {
  int pid = 0;                   // the engine's, in its own namespace
  std::string model;             // its served name
  std::vector<int> engine_cpus;  // ascending, as is worker_cpus
  std::vector<int> worker_cpus;

  std::vector<int> cpus() const;  // both lists
};

// Claims the cores for this process while it lives. Move-only.
class CoreClaimHolder {
 public:
  // The pid is that of this process. Cpus beyond kMaxClaimedCpu are left out. Fails like
  // ShmRegion::create.
  static Result<CoreClaimHolder> create(const ClaimedCores& cores);
  CoreClaimHolder() = default;  // claims nothing

 private:
  explicit CoreClaimHolder(ShmRegion region) : region_(std::move(region)) {}
  ShmRegion region_;
};

// Returns the claims of other processes. Claims that cannot be read or are damaged are left out.
std::vector<ClaimedCores> read_core_claims();

// Lets one process plan at a time, from reading the others' claims to making its own: a lock on
// /dev/shm itself, so that no file is left behind. Unlocked by the destructor, or by the process's
// end.
class PlanningTurn {
 public:
  // Waits for the lock for at most `patience`, then continues without it, as it does without
  // /dev/shm.
  explicit PlanningTurn(std::chrono::milliseconds patience);
  ~PlanningTurn();
  PlanningTurn(const PlanningTurn&) = delete;
  PlanningTurn& operator=(const PlanningTurn&) = delete;
  bool has_lock() const { return has_lock_; }

 private:
  int descriptor_ = -1;
  bool has_lock_ = false;
};

}  // namespace tandem
