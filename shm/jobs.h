// The life of a job in a mailbox: operations of the engine and its workers on the words that
// mailbox_layout.h describes.
#pragma once

#include <cstdint>

#include "shm/mailbox.h"

namespace tandem {

// Engine side.

// Describes job `sequence` and publishes it; sequences rise from 1 on. The groups' `group` are
// ascending. One thread at a time.
void publish_job(Mailbox& mailbox, std::uint64_t sequence, const GroupJob* groups,
                 std::uint32_t num_groups, const WorkerSlotWeights& weights = kEvenWeights);
// Declares that no job before `sequence` will be offered any more. `sequence` is at most one past
// the last published job, and never decreases.
void retire_before(Mailbox& mailbox, std::uint64_t sequence);
void wake_workers(Mailbox& mailbox);
void stop_workers(Mailbox& mailbox);
// Whether all worker slots in `workers` are empty or have finished job `sequence`. Progress beyond
// the last published job is garbage and does not count. Worker slots in `held` do not count as
// empty, whatever their words contain.
bool quiet(const Mailbox& mailbox, std::uint64_t workers, std::uint64_t sequence,
           std::uint64_t held = 0);

// Worker side.

// A copy of a job's groups. read_job() returns false if the job is not described (yet, or any
// more).
struct JobCopy {
  WorkerSlotWeights weights = kEvenWeights;
  std::uint32_t num_groups = 0;
  GroupJob groups[kMaxColdGroups];
};
bool read_job(const Mailbox& mailbox, std::uint64_t sequence, JobCopy& out);
// Sleeps until wake_workers() or stop_workers() after `wake` was read from the inbox, or until the
// timeout; may end early.
void sleep_until_woken(const Mailbox& mailbox, std::uint32_t wake, double timeout_s);

}  // namespace tandem
