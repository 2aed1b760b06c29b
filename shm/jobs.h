// A job's way through a mailbox: what the engine and its workers do with the words that
// mailbox_layout.h explains.
#pragma once

#include <cstdint>

#include "shm/mailbox.h"

namespace tandem {

// Engine side.

// Describes job `sequence` and publishes it; sequences rise from 1 on. The groups' `group` are
// ascending. One thread at a time.
void publish_job(Mailbox& mailbox, std::uint64_t sequence, const GroupJob* groups,
                 std::uint32_t num_groups, const WorkerSlotWeights& weights = kEvenWeights);
// No job before `sequence` will be offered any more; `sequence` is one past a published job's at
// most. It never sinks.
void retire_before(Mailbox& mailbox, std::uint64_t sequence);
void wake_workers(Mailbox& mailbox);
void stop_workers(Mailbox& mailbox);
// All of the worker slots in `workers` are empty or have left job `sequence` behind. Progress
// beyond the last published job is garbage and does not count. Those in `held` are not empty,
// whatever they say.
bool quiet(const Mailbox& mailbox, std::uint64_t workers, std::uint64_t sequence,
           std::uint64_t held = 0);

// Worker side.

// The groups of job `sequence`, copied; false: it is not described (yet, or any more).
struct JobCopy {
  WorkerSlotWeights weights = kEvenWeights;
  std::uint32_t num_groups = 0;
  GroupJob groups[kMaxColdGroups];
};
bool read_job(const Mailbox& mailbox, std::uint64_t sequence, JobCopy& out);
// Sleeps until wake_workers() or stop_workers() after `wake` was read from the inbox, or until
// the time is over; may end early.
void sleep_until_woken(const Mailbox& mailbox, std::uint32_t wake, double timeout_s);

}  // namespace tandem
