// Whether a running engine's threads and workers are where they belong: what the engine says of
// itself in its control region and mailboxes, against the kernel's account of where they run and
// where the shared memory lies. Looking and judging are apart, so that any machine can be judged.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "cpu_lora/placement/process_place.h"
#include "cpu_lora/topology/machine_map.h"
#include "shm/control.h"
#include "shm/core_claims.h"
#include "shm/mailbox.h"

namespace tandem {

struct ObservedWorker {
  int group = 0;
  int worker_slot = 0;
  int pid = 0;           // 0: nobody sits there
  int claimed_cpu = -1;  // that it says it is bound to; -1: none
  int meant_cpu = -1;    // that the engine means for the worker slot; -1: none
  bool alive = false;    // the rest is known of the living only
  WorkerSlotState state = WorkerSlotState::empty;
  std::vector<int> allowed;
  int last_cpu = -1;
  PagesByNode own_pages;  // empty: not to be known
};

struct ObservedRegion {
  int group = 0;
  std::string what;  // "arena"
  std::string name;
  PagesByNode pages;    // of a sample
  std::string problem;  // why they are not known; empty: they are
};

struct ObservedEngine {
  ControlInfo info;
  std::vector<ThreadPlace> threads;     // the engine's own
  std::vector<ObservedWorker> workers;  // worker slots that somebody has or should have
  std::vector<ObservedRegion> regions;
};

struct Drift {
  std::string what;    // a sentence
  std::string remedy;  // a command, or what to do
};

// As read_control; also not_found where the engine has ended and left its region.
Result<ObservedEngine> observe_engine(int pid);

// Empty: all is as it should be. `machine` is the one that the engine was observed on.
std::vector<Drift> find_drift(const ObservedEngine& engine, const MachineMap& machine);

// Cores that the engine of this pid and another one have both taken, by what all of them have said.
std::vector<Drift> find_overlaps(int pid, const std::vector<ClaimedCores>& claims);

// The share of pages that lie on `node`; 1 where there are none.
double share_on(const PagesByNode& pages, int node);

}  // namespace tandem
