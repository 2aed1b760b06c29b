// Measures the first costs of a machine that has none stored: runs some loads, steps and handovers
// of made-up adapters, from which the handoff learns as from any others.
//
// Loads that have the link to themselves give the link's speed. Steps of few to many rows give the
// time of the layers. Steps whose loads are held back until they have ended, so that workers
// compute everything that is offered, give the stalls, for whole deltas and for x A^T alone.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/dtype.h"
#include "base/status.h"
#include "engine/adapters/adapter_store.h"
#include "engine/executor/executor.h"
#include "engine/memory/page_pool.h"
#include "engine/model/spec/model_spec.h"
#include "gpu/device.h"

namespace tandem {

struct CalibrationOptions {
  double seconds = 2;              // approximate time limit
  std::int32_t max_rows = 0;       // of one step
  std::int32_t max_sequences = 0;  // of one step
  std::int32_t max_len = 0;        // of one prompt
  std::int32_t max_rank = 0;       // of one adapter
};

// Requires that no step or load is in flight and no adapter is loaded. Afterwards only the lessons
// of the executor's handoff remain, and all counts are zero. Without room for adapters, or if no
// worker starts in time, fewer costs are measured, and the log says so. A failure is a failure of
// the device. Without a handoff this does nothing.
Status calibrate(Executor& executor, AdapterStore& store, Device& device, PagePool& pool,
                 const ModelSpec& config, DType dtype, const Clock& clock,
                 const CalibrationOptions& options);

}  // namespace tandem
