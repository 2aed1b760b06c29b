// Which cores the engines of this machine have taken, so that two of them do not compute on the
// same ones. Each says so in a region of its own, /tandem-PID-RANDOM-cores, whose lock dies with it
// (region.h); whoever plans reads those of the others first.
//
// Engines of other users are not seen, for their regions may not be read; nor are those of
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
  int pid = 0;                   // of the engine, as it knows itself
  std::string model;             // its served name
  std::vector<int> engine_cpus;  // rising, as are the workers'
  std::vector<int> worker_cpus;

  std::vector<int> cpus() const;  // all of them
};

// While it lives the cores are this process's. Move-only.
class CoreClaimHolder {
 public:
  // The pid is this process's. Cpus beyond kMaxClaimedCpu are left out. Fails as ShmRegion::create.
  static Result<CoreClaimHolder> create(const ClaimedCores& cores);
  CoreClaimHolder() = default;  // of nothing

 private:
  explicit CoreClaimHolder(ShmRegion region) : region_(std::move(region)) {}
  ShmRegion region_;
};

// Those of other processes. What cannot be read, or is damaged, is left out.
std::vector<ClaimedCores> read_core_claims();

// One process plans at a time, from reading the others' claims to making its own: a lock on
// /dev/shm itself, so that nothing is left of it. Unlocked by the destructor, or by the process's
// end.
class PlanningTurn {
 public:
  // Waits at most so long; then it goes on without the lock, as it does where there is no /dev/shm.
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
