// Checks whether a running engine's threads, workers and shared memory are placed as intended: it
// compares the engine's control region and mailboxes with what the kernel reports. Observing and
// judging are separate, so that any machine's state can be judged.
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
  int pid = 0;           // 0: the slot is empty
  int claimed_cpu = -1;  // the cpu that the worker says it is bound to; -1: none
  int meant_cpu = -1;    // the cpu that the engine intends for the worker slot; -1: none
  bool alive = false;    // the following fields are set only if it is alive
  WorkerSlotState state = WorkerSlotState::empty;
  std::vector<int> allowed;
  int last_cpu = -1;
  PagesByNode own_pages;  // empty: unknown
};

struct ObservedRegion {
  int group = 0;
  std::string what;  // "arena"
  std::string name;
  PagesByNode pages;    // sampled
  std::string problem;  // why the pages are unknown; empty: they are known
};

struct ObservedEngine {
  ControlInfo info;
  std::vector<ThreadPlace> threads;     // the engine's own
  std::vector<ObservedWorker> workers;  // worker slots that have or should have a worker
  std::vector<ObservedRegion> regions;
};

struct Drift {
  std::string what;    // a sentence
  std::string remedy;  // a command, or what to do
};

// Errors of read_control, and not_found if the engine has ended and left its region.
Result<ObservedEngine> observe_engine(int pid);

// Empty: everything is placed as intended. `machine` is the one that the engine was observed on.
std::vector<Drift> find_drift(const ObservedEngine& engine, const MachineMap& machine);

// Cores that both the engine `pid` and another engine have claimed.
std::vector<Drift> find_overlaps(int pid, const std::vector<ClaimedCores>& claims);

// The share of pages that are on `node`; 1 if there are no pages.
double share_on(const PagesByNode& pages, int node);

}  // namespace tandem
