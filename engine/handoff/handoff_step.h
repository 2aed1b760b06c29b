// The data of a step that hands rows over: its plan, its state in flight and its results.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids/slot_id.h"
#include "base/ids/ticket.h"
#include "engine/adapters/served_adapter.h"
#include "engine/handoff/handoff_jobs.h"
#include "engine/model/step/step_handoff.h"
#include "gpu/device.h"
#include "scheduler/planning/coldstart/load_piece.h"
#include "scheduler/planning/coldstart/step_choice.h"

namespace tandem {

// The rows of one adapter in this step or a later one.
struct AdapterRows {
  AdapterLease adapter;
  std::int32_t rows = 0;
};

// The handover of one step; at most kMaxStepsInFlight exist at once. Its calls are in
// planned_handoff.h.
struct HandoffStep {
  struct Group {
    AdapterLease adapter;
    AdapterBytes bytes;  // held because workers read them
    GroupOfStep job;
    std::uint32_t generation = 0;
    SlotId slot;
  };
  std::vector<Group> groups;  // empty: nothing is handed over
  std::vector<LayerHandoff> layers;
  std::size_t num_sites = 0;  // of the model
  // Weights that the compute stream waits for: those of groups that are in no mask, or B alone.
  struct Wait {
    std::size_t group;
    std::int64_t layer;
    PieceKind kind;
    double arrives;  // expected, in seconds after the plan was made; has arrived: 0 or less
  };
  std::vector<Wait> waits;
  // [layers], or empty if no layer is marked. True where workers get a layer that was still being
  // read when the step was planned: its time includes waiting for the disk and is no measure of
  // work.
  std::vector<bool> unread;
  StepHandoff device;          // for Model::compute, once it is offered
  std::uint64_t sequence = 0;  // of its first job
  std::size_t results_at = 0;  // index of the memory that receives times and tickets
  bool begun = false;          // its jobs are published and not yet ended
  std::int32_t num_offers = 0;
  std::int32_t rows = 0;  // of the whole step
  double starts_in = 0;   // seconds after the plan was made
  double layer_s = 0;     // predicted seconds of one layer with all adapters on the GPU
  // Predicted seconds of the step from its start. 0: nothing was planned, as no row is cold or no
  // worker could take any.
  double planned_s = 0;
  WayChoice chosen;        // its way; `wait` if nothing is offered
  bool is_chosen = false;  // by choose_step(); otherwise the step says nothing about its plans
  std::vector<double> planned_layers;  // [layers]: predicted seconds of each
  // The device's results in pinned memory, valid when the step has ended. Times and tickets are at
  // the places of the offers (offer_at), in the units of HandoffJob::time and Ticket.
  std::uint64_t* times = nullptr;      // [layers * sites]
  std::uint32_t* tickets = nullptr;    // [layers * sites][kMaxColdGroups]
  std::uint32_t* timed_out = nullptr;  // [groups]

  // Mask of the mailboxes whose workers have its groups.
  std::uint64_t mailboxes() const {
    std::uint64_t used = 0;
    for (const Group& group : groups) used |= std::uint64_t{1} << group.job.mailbox;
    return used;
  }
  Ticket ticket(std::size_t place, std::size_t group) const {
    return static_cast<Ticket>(tickets[place * kMaxColdGroups + group]);
  }
};

// The result of a step that has ended.
struct HandoffOutcome {
  std::vector<SlotId> timed_out;  // of the groups whose rows have to be computed again
  struct Served {
    std::size_t group;
    SlotId slot;
    std::int32_t cpu_layers;  // layers that workers computed in part or in full
  };
  std::vector<Served> served;  // the other groups; none if the step failed
};

struct HandoffCounts {
  std::uint64_t steps = 0;       // steps with groups
  std::uint64_t rows = 0;        // of groups
  std::uint64_t cpu_layers = 0;  // of groups; computed by workers in part or in full
  std::uint64_t gpu_layers = 0;  // offered, but the weights had arrived
  std::uint64_t timed_out = 0;   // groups
  std::uint64_t breaks = 0;      // of mailboxes
  double planned_s = 0;          // of steps with groups
  double actual_s = 0;
  double plan_error = 0;  // median of the latest steps with a plan; 0.1: off by 10 %
};

}  // namespace tandem
