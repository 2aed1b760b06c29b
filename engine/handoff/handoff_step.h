// What is known of a step that hands rows over: before it is planned, while it is under way, and
// when it has ended.
#pragma once

#include <cstdint>
#include <vector>

#include "base/slot_id.h"
#include "base/ticket.h"
#include "engine/adapters/served_adapter.h"
#include "engine/handoff/handoff_jobs.h"
#include "engine/model/step/step_handoff.h"
#include "gpu/device.h"
#include "scheduler/coldstart/load_piece.h"
#include "scheduler/coldstart/plan_memory.h"

namespace tandem {

// Rows of one adapter in a step, or that will be.
struct AdapterRows {
  AdapterLease adapter;
  std::int32_t rows = 0;
};

// What one step hands over. Lives from plan() to end(); kMaxStepsInFlight are under way at most.
struct HandoffStep {
  struct Group {
    AdapterLease adapter;
    AdapterBytes bytes;  // held: workers read them
    GroupOfStep job;
    std::uint32_t generation = 0;
    SlotId slot;
  };
  std::vector<Group> groups;  // none: nothing is handed over
  std::vector<LayerHandoff> layers;
  // What the compute stream waits for: weights of groups that are in no mask, or B alone.
  struct Wait {
    std::size_t group;
    std::int64_t layer;
    PieceKind kind;
    double arrives;  // expected, in seconds from when the step was planned; past: not above 0
  };
  std::vector<Wait> waits;
  // [layers]; empty: none. Workers are handed a layer that was still being read when the step was
  // planned: what they wait for the disk is no work.
  std::vector<bool> unread;
  StepHandoff device;          // for Model::compute, after publish()
  std::uint64_t sequence = 0;  // of its first job
  std::size_t turn = 0;        // of the memory for what the device tells
  bool begun = false;          // its jobs are out: end() has to come
  std::int32_t num_offers = 0;
  std::int32_t rows = 0;  // of the whole step
  double starts_in = 0;   // seconds from when it was planned
  double layer_s = 0;     // that a layer of it would take, were all adapters there
  // Predicted for the step, were it to begin at once; 0: nothing was planned, none of its rows are
  // cold or nobody could be handed any.
  double planned_s = 0;
  PlanSituation situation;
  PlanWay way = PlanWay::wait;
  bool given_up = false;  // a plan promised to shorten it, but such plans were seen to lose
  std::vector<double> planned_layers;  // [layers]: of it, in seconds
  // What the device told of it, in pinned memory, when it has ended: at the places of its offers
  // (offer_at), as HandoffJob::time and tickets.
  std::uint64_t* times = nullptr;      // [layers * kNumSites]
  std::uint32_t* tickets = nullptr;    // [layers * kNumSites][kMaxColdGroups]
  std::uint32_t* timed_out = nullptr;  // [groups]

  Ticket ticket(std::size_t place, std::size_t group) const {
    return static_cast<Ticket>(tickets[place * kMaxColdGroups + group]);
  }
};

// What came of it.
struct HandoffOutcome {
  std::vector<AdapterLease> voided;
  struct Served {
    const ServedAdapter* adapter;
    std::int32_t cpu_layers;  // layers of which workers computed anything
  };
  std::vector<Served> served;
};

struct HandoffCounts {
  std::uint64_t steps = 0;       // with rows handed over, or that might have been
  std::uint64_t rows = 0;        // of groups
  std::uint64_t cpu_layers = 0;  // of groups: workers computed anything of it
  std::uint64_t gpu_layers = 0;  // offered, but the weights had arrived
  std::uint64_t timed_out = 0;   // groups
  std::uint64_t breaks = 0;      // of mailboxes
  double planned_s = 0;          // of steps with groups
  double actual_s = 0;
  double plan_error = 0;  // of the last steps with a plan, the median: 0.1 is 10 % of it
};

}  // namespace tandem
