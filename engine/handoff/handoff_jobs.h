// Converts the layers of a cold adapter to jobs for its workers.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/loader/adapter.h"
#include "engine/model/step/step_handoff.h"
#include "engine/profile/layer_load.h"
#include "shm/mailbox.h"

namespace tandem {

// A group of a step: the fields from which its jobs are made.
struct GroupOfStep {
  const Adapter* adapter = nullptr;
  std::uint64_t arena_offset = 0;  // of the adapter's bytes, in the arena of the mailbox's workers
  // For a folder that is still being read: layer l is present when word l, counted from this
  // offset, holds this value (AdapterReading). 0: all layers are present.
  std::uint64_t words_offset = 0;
  std::uint32_t present_value = 0;
  std::int32_t mailbox = 0;
  std::uint64_t workers = 0;
  std::uint32_t rows = 0;
  std::uint32_t first_row = 0;
  JobSplit split = JobSplit::columns;
};

// True if the adapter has any module of the projection in this layer.
bool adapts(const Adapter& adapter, const ModuleTable& modules, std::int64_t layer, Site site);

// The part of group number `group` in the job for one projection of one layer.
GroupJob group_job(const ModelSpec& spec, const GroupOfStep& of, std::uint32_t group,
                   std::int64_t layer, Site site);

// The sizes that a mailbox needs for a model of this shape.
MailboxShape mailbox_shape(const ModelSpec& spec, DType dtype, std::int32_t max_rank,
                           std::int32_t max_rows, std::int32_t num_worker_slots);

}  // namespace tandem
