// The mailboxes of an engine and their CPU workers. There is one mailbox for each arena of the host
// tier, and its workers compute the adapters in that arena.
//
// A group that times out breaks its mailbox: the engine hands nothing to it any more. Once no step
// with its groups is in flight, its workers get a short time to finish the last job. Workers that
// have not finished by then are killed (WorkerPool::clear). When the mailbox is quiet, its broken
// flag on the device is cleared on the compute stream, and the mailbox is open again.
//
// Only the engine thread may use it, except where a comment says otherwise.
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

// The mask of one mailbox, or of one group.
constexpr std::uint64_t mask_of(std::size_t bit) {
  return std::uint64_t{1} << bit;
}

class Mailboxes {
 public:
  // Creates the mailboxes, the control region and the workers. Fails with resource_exhausted, and
  // the reason, if there is too little shared memory. `host` has one arena for each of the options'
  // groups, in the same order. `host`, `device`, `clock` and `communicator` outlive the mailboxes.
  // `device` and `communicator` (or null) are those of the first rank.
  static Result<std::unique_ptr<Mailboxes>> create(Device& device, Communicator* communicator,
                                                   const ModelSpec& config, DType dtype,
                                                   std::int32_t max_rank,
                                                   const HandoffOptions& options,
                                                   const HostTier& host, const Clock& clock);
  ~Mailboxes();  // requires that no step is in flight
  Mailboxes(const Mailboxes&) = delete;
  Mailboxes& operator=(const Mailboxes&) = delete;

  std::size_t size() const { return boxes_.size(); }
  // For each mailbox, the worker slots that can be given jobs now; none while it is broken.
  std::vector<std::uint64_t> workers() const;
  // The same, restricted to the `undisturbed` worker slots.
  std::vector<MailboxWorkers> workers(std::span<const std::uint64_t> undisturbed);
  // The number of running workers, including those of broken mailboxes. Any thread.
  std::int32_t live_workers() const;
  std::vector<WorkerStatus> status() const { return pool_->status(); }  // any thread
  // WorkerWakes::usual_s() of the mailbox whose workers take longest to wake. Any thread.
  double worker_wake_s() const { return worker_wake_s_.load(std::memory_order_relaxed); }

  // The device's view of a mailbox, and the state that it keeps.
  const MailboxView& view(std::size_t box) const { return boxes_[box].view; }
  HandoffState* state() const { return reinterpret_cast<HandoffState*>(state_.data()); }

  // Publishes a mailbox's part of a job. It may be empty, as every mailbox counts every job.
  void publish(std::size_t box, std::uint64_t sequence, std::span<const GroupJob> jobs);
  // Wakes the workers, so that they are awake when a step is published. The wake times of the
  // `undisturbed` workers, by mailbox, are measured.
  void wake(std::span<const std::uint64_t> undisturbed);
  // Called when all jobs of a step are published, before it is enqueued: wakes the workers of the
  // mailboxes in `used`.
  void step_begins(std::uint64_t used, std::span<const std::uint64_t> undisturbed);
  // Ends a step and the jobs before `next_sequence`. The mailboxes in `broken` are broken from now
  // on. Returns how many of them were open before.
  int step_ended(std::uint64_t used, std::uint64_t broken, std::uint64_t next_sequence);
  // Opens the broken mailboxes that have become quiet. Called before a step is planned.
  void mend(Stream& stream);

 private:
  struct Box {
    std::unique_ptr<Mailbox> mailbox;
    Buffer inbox, outbox;  // pinned
    MailboxView view;
    WorkerSpeeds speeds;
    WorkerWakes wakes;
    std::int32_t steps_in_flight = 0;  // with groups of this mailbox
    bool broken = false;
    bool cleared = false;
    TimePoint idle_since;  // when the last step ended that used it
  };

  explicit Mailboxes(const Clock& clock) : clock_(&clock) {}
  void wake(std::size_t box, std::uint64_t undisturbed);
  Status make_boxes(Device& device, const ModelSpec& config, DType dtype, std::int32_t max_rank,
                    const HandoffOptions& options);
  Status make_state(Device& device, Communicator* communicator);
  Status start_workers(const HandoffOptions& options, const HostTier& host);

  const Clock* clock_;
  std::vector<Box> boxes_;  // the workers of box i have the weights of the host tier's arena i
  Buffer state_;            // HandoffState
  std::atomic<double> worker_wake_s_{0};
  std::optional<ControlRegion> control_;
  std::unique_ptr<WorkerPool> pool_;  // destroyed before the mailboxes
};

}  // namespace tandem
