// A mailbox in one process: both regions mapped, with pointers to their areas. mailbox_layout.h
// defines who writes what and when; jobs.h implements it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "shm/mailbox_layout.h"
#include "shm/region.h"

namespace tandem {

// The part of the rings that is in use. Private to the engine, in no region.
struct JobRings {
  std::uint64_t next_group = 0;  // in the ring of group jobs
  std::uint64_t oldest_job = 1;  // no job before it is in the ring of jobs
};

// Both regions of one worker group, mapped. Move-only. Addresses inside are this process's.
class Mailbox {
 public:
  // Creates both regions, zeroed and laid out, with memory on `node` (-1: anywhere).
  static Result<Mailbox> create(const MailboxShape& shape, int node);
  // Maps an engine's regions: the inbox read-only, the outbox writable. Fails, with the reason, if
  // they are no mailbox of this version, not ready, or too small for their header.
  static Result<Mailbox> open(const std::string& inbox, const std::string& outbox);
  // Engine side: restores the outbox's header, into which workers may write, so that the next
  // worker can open it.
  void restore_outbox_header();

  const MailboxShape& shape() const { return shape_; }
  const ShmRegion& inbox_region() const { return inbox_; }
  const ShmRegion& outbox_region() const { return outbox_; }

  InboxHeader& inbox() const { return *reinterpret_cast<InboxHeader*>(inbox_.data()); }
  Doorbell* doorbells() const { return doorbells_; }
  Job& job(std::uint64_t sequence) const { return jobs_[sequence % kNumJobs]; }
  GroupJob& group_job(std::uint64_t index) const { return group_jobs_[index % kNumGroupJobs]; }
  WorkerSlot& worker_slot(int index) const { return worker_slots_[index]; }
  JobRings& rings() { return rings_; }  // engine side

  // The beginning of a group's rows.
  std::byte* x_of(std::uint32_t first_row) const;
  float* v_of(std::uint32_t first_row) const;
  std::byte* y_of(std::uint32_t first_row) const;
  std::uint32_t v_row() const;  // floats that all planes of a row of v may take

 private:
  Mailbox(const MailboxShape& shape, const MailboxLayout& layout, ShmRegion inbox,
          ShmRegion outbox);

  MailboxShape shape_;
  ShmRegion inbox_;
  ShmRegion outbox_;
  Doorbell* doorbells_ = nullptr;
  Job* jobs_ = nullptr;
  GroupJob* group_jobs_ = nullptr;
  std::byte* x_ = nullptr;
  WorkerSlot* worker_slots_ = nullptr;
  float* v_ = nullptr;
  std::byte* y_ = nullptr;
  JobRings rings_;
};

}  // namespace tandem
