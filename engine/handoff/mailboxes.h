// The mailboxes of an engine and the CPU workers behind them: one mailbox for each arena of the
// host tier, whose workers compute the adapters that lie there.
//
// A void breaks its mailbox: nothing is handed to it any more. When no step with groups of it is
// under way it gets a little time to fall quiet, then workers that have not left the last job
// behind are killed (WorkerPool::clear), and when it is quiet the device's word of it is zeroed on
// the compute stream: it is open again.
//
// The engine thread alone uses it, but for what is marked.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "cpu_lora/worker_pool/worker_pool.h"
#include "cpu_lora/worker_pool/worker_speeds.h"
#include "cpu_lora/worker_pool/worker_wakes.h"
#include "engine/adapters/host_tier.h"
#include "engine/handoff/handoff_options.h"
#include "engine/handoff/mailbox_workers.h"
#include "engine/model/step/step_handoff.h"
#include "gpu/device.h"
#include "shm/control.h"
#include "shm/mailbox.h"

namespace tandem {

// A set of mailboxes.
constexpr std::uint64_t mask_of(std::size_t bit) {
  return std::uint64_t{1} << bit;
}

class Mailboxes {
 public:
  // Makes mailboxes, control region and workers. resource_exhausted, with the reason, when shared
  // memory does not suffice. `host` has an arena for each of the options' groups, in their order;
  // it outlives them, like `device` and `clock`, and `communicator`: of the first rank, whose
  // device this is, or null.
  static Result<std::unique_ptr<Mailboxes>> create(Device& device, Communicator* communicator,
                                                   const ModelSpec& config, DType dtype,
                                                   std::int32_t max_rank,
                                                   const HandoffOptions& options,
                                                   const HostTier& host, const Clock& clock);
  ~Mailboxes();  // nothing is under way
  Mailboxes(const Mailboxes&) = delete;
  Mailboxes& operator=(const Mailboxes&) = delete;

  std::size_t size() const { return boxes_.size(); }
  // Of each mailbox, the worker slots to which anything could be handed over now; none while it is
  // broken.
  std::vector<std::uint64_t> workers() const;
  // Those of them that are among the `undisturbed`.
  std::vector<MailboxWorkers> workers(std::span<const std::uint64_t> undisturbed);
  // Workers that are up, be their mailbox open or broken. Any thread.
  std::int32_t live_workers() const;
  std::vector<WorkerStatus> status() const { return pool_->status(); }  // any thread
  // As WorkerWakes::usual_s(), of the mailbox where they take longest. Any thread.
  double worker_wake_s() const { return worker_wake_s_.load(std::memory_order_relaxed); }

  // The device's part of it.
  const MailboxView& view(std::size_t box) const { return boxes_[box].view; }
  HandoffState* state() const { return reinterpret_cast<HandoffState*>(state_.data()); }

  // What a job has for this mailbox's workers: nothing, for some. Every mailbox counts every job.
  void publish(std::size_t box, std::uint64_t sequence, std::span<const GroupJob> jobs);
  // So that workers are awake by the time a step is described. How long those take that are
  // `undisturbed`, by mailbox, is learnt.
  void wake(std::span<const std::uint64_t> undisturbed);
  // All jobs of a step are published, and it may be enqueued: wakes the workers of these mailboxes.
  void step_begins(std::uint64_t used, std::span<const std::uint64_t> undisturbed);
  // The step has ended, and with it the jobs before `next_sequence`; these mailboxes are broken
  // from now on. Returns how many were not before.
  int step_ended(std::uint64_t used, std::uint64_t broken, std::uint64_t next_sequence);
  // Before a step is planned: opens mailboxes that have become quiet.
  void mend(Stream& stream);

 private:
  struct Box {
    std::unique_ptr<Mailbox> mailbox;
    Buffer inbox, outbox;  // pinned
    MailboxView view;
    WorkerSpeeds speeds;
    WorkerWakes wakes;
    std::int32_t steps_in_flight = 0;  // with groups of it
    bool broken = false;
    bool cleared = false;
    TimePoint idle_since;  // broken, and no step in flight
  };

  explicit Mailboxes(const Clock& clock) : clock_(&clock) {}
  void wake(std::size_t box, std::uint64_t undisturbed);
  Status make_boxes(Device& device, const ModelSpec& config, DType dtype, std::int32_t max_rank,
                    const HandoffOptions& options);
  Status make_state(Device& device, Communicator* communicator);
  Status start_workers(const HandoffOptions& options, const HostTier& host);

  const Clock* clock_;
  std::vector<Box> boxes_;  // box i's workers have the weights of the host tier's arena i
  Buffer state_;            // HandoffState
  std::atomic<double> worker_wake_s_{0};
  std::optional<ControlRegion> control_;
  std::unique_ptr<WorkerPool> pool_;  // ends before the mailboxes
};

}  // namespace tandem
