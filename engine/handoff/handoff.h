// The engine's side of the handoff: which rows of a step go to CPU workers, what the workers are
// told of them, and what happens when they do not answer.
//
//   plan()      which cold adapters become groups, in which layers, and what else is waited for
//   publish()   the jobs are described, sleeping workers are woken; the step may be enqueued
//   copy_back() behind the step: its voids and tickets, for the host
//   end()       the step has ended: what was void
//
// A void breaks its mailbox: nothing is handed to it any more. When no step with groups of it is
// under way it gets a little time to fall quiet, then workers that have not left the last job
// behind are killed (WorkerPool::clear), and when it is quiet the device's word of it is zeroed on
// the compute stream: it is open again.
//
// The engine thread alone uses it, but for the counts and the pool's status.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cpu_lora/worker_pool.h"
#include "engine/adapters/device_tier.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/handoff/admission.h"
#include "engine/handoff/handoff_jobs.h"
#include "engine/handoff/handoff_options.h"
#include "engine/handoff/planner.h"
#include "engine/model/step_batch.h"
#include "engine/model/step_handoff.h"
#include "gpu/device.h"
#include "shm/control.h"
#include "shm/mailbox.h"

namespace tandem {

// Rows of one adapter in a step, or that will be.
struct AdapterRows {
  AdapterLease adapter;
  std::int32_t rows = 0;
};

// What is known of a step before it is planned.
struct ExpectedStep {
  double starts_in = 0;  // seconds
  double pace = 1;       // what steps take these days, over what the cost model says
};

// What one step hands over. Lives from plan() to end(); two are under way at most.
struct HandoffStep {
  struct Group {
    AdapterLease adapter;
    AdapterBytes bytes;  // held: workers read them
    GroupOfStep job;
    std::uint32_t generation = 0;
    std::int32_t slot = -1;
  };
  std::vector<Group> groups;  // none: nothing is handed over
  std::vector<LayerHandoff> layers;
  std::vector<std::vector<Event*>> waits;  // [layers]
  StepHandoff device;                      // for LlamaModel::compute, after publish()
  std::int32_t num_offers = 0;
  double planned_s = 0;              // predicted for the step, were it to begin at once
  std::uint32_t* answers = nullptr;  // pinned: voids [groups], then tickets [offers][groups]
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
  std::uint64_t voids = 0;       // groups
  std::uint64_t breaks = 0;      // of mailboxes
  double planned_s = 0;          // of steps with groups
  double actual_s = 0;
};

class Handoff {
 public:
  // Makes mailboxes, control region and workers. resource_exhausted, with the reason, when shared
  // memory does not suffice. `host` has an arena for each of the options' groups, in their order.
  // All arguments outlive it. `whole_loads`: all layers are offered until
  // all of an adapter is there (the CaraServe paper's way); else the planner decides.
  static Result<std::unique_ptr<Handoff>> create(Device& device, const ModelConfig& config,
                                                 DType dtype, std::int32_t max_rank,
                                                 bool whole_loads, const HandoffOptions& options,
                                                 const HostTier& host, const Clock& clock);
  ~Handoff();  // nothing is under way

  // Whether anything could be handed over now.
  std::int32_t num_workers() const;

  // In which steps adapters that wait should begin, and in which order the loads that are reserved,
  // `loads`, should travel: behind those of `waiting`, which are on their way. The turns are those
  // of `waiting`, then `loads`; the order names `loads` alone. `rows` beside them is what else the
  // next step will have.
  AdmissionPlan admission(std::span<const AdapterRows> waiting, std::span<const AdapterRows> loads,
                          std::int32_t rows, const ExpectedStep& expected,
                          const DeviceTier& tier) const;

  // Fills in all of `step` but `device`. What of `cold`, adapters that have not all arrived, is in
  // none of its groups must be waited for layer by layer.
  void plan(std::span<const AdapterRows> cold, std::int32_t step_rows, const ExpectedStep& expected,
            DeviceTier& tier, HandoffStep& step);
  std::vector<ColdSlot> cold_slots(const HandoffStep& step) const;
  // `input` is the step's, uploaded; enqueue it then.
  void publish(const StepInput& input, const DeviceTier& tier, HandoffStep& step);
  void copy_back(Stream& stream, const HandoffStep& step);
  // `failed`: nothing is known of it but that it is over. `seconds` that it took.
  HandoffOutcome end(HandoffStep& step, bool failed, double seconds);

  // Before a step is planned: opens mailboxes that have become quiet.
  void mend(Stream& stream);

  double step_time(std::int32_t rows) const;  // without cold rows
  const CostModel& costs() const { return costs_; }
  // Any thread.
  std::vector<WorkerStatus> workers() const { return pool_->status(); }
  // Workers that are up, be their mailbox open or broken. Any thread.
  std::int32_t live_workers() const;
  const WorkerPool& pool() const { return *pool_; }
  const HandoffCounts& counts() const { return counts_; }  // engine thread

 private:
  struct Box {
    std::unique_ptr<Mailbox> mailbox;
    Buffer inbox, outbox;  // pinned
    MailboxView view;
    std::int32_t steps_in_flight = 0;  // with groups of it
    bool broken = false;
    bool cleared = false;
    TimePoint idle_since;  // broken, and no step in flight
  };

  Handoff(const ModelConfig& config, DType dtype, bool whole_loads, const HandoffOptions& options,
          const HostTier& host, const Clock& clock);
  Status make_boxes(Device& device, std::int32_t max_rank, const HandoffOptions& options);
  Status make_device_memory(Device& device);
  Status start_workers(const HandoffOptions& options);
  std::uint64_t workers_of(std::size_t box) const;
  struct Candidate;
  std::vector<Candidate> choose(std::span<const AdapterRows> cold, const DeviceTier& tier) const;
  ColdAdapter times_of(const AdapterRows& cold, const ArrivingAdapter& arriving,
                       TimePoint now) const;
  PlanRequest request_for(std::int32_t rows, const ExpectedStep& expected) const;
  HandoffPlan choose_layers(std::span<const Candidate> candidates, std::int32_t step_rows,
                            const ExpectedStep& expected) const;
  void lay_out(std::span<const Candidate> candidates, const HandoffPlan& plan, DeviceTier& tier,
               HandoffStep& step) const;
  void describe(std::int64_t layer, Site site, std::uint64_t sequence, const HandoffStep& step);

  const ModelConfig config_;
  const DType dtype_;
  const bool whole_loads_;
  const std::int32_t max_rows_;
  const std::uint32_t deadline_us_;
  const CostModel costs_;
  const HandoffOptions::Planner plan_;
  const HostTier* host_;
  const Clock* clock_;
  std::int32_t max_groups_ = 0;
  std::vector<Box> boxes_;  // box i's workers have the weights of the host tier's arena i
  Buffer state_;            // HandoffState
  Buffer tickets_;          // [offers][groups]
  std::array<Buffer, 2> answers_;
  std::size_t turn_ = 0;
  std::uint64_t next_sequence_ = 1;
  HandoffCounts counts_;
  std::optional<ControlRegion> control_;
  std::unique_ptr<WorkerPool> pool_;  // ends before the mailboxes
};

}  // namespace tandem
