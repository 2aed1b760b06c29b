// First costs of a machine that nobody has measured: some loads, steps and handovers of made-up
// adapters, from which the handoff learns as from any others.
//
// A load with the link to itself tells of the link; steps of few to many rows tell of the layers;
// steps whose loads are held back until they have ended, so that workers compute all that they are
// offered, tell of stalls, with whole deltas and with x A^T alone.
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
  double seconds = 2;              // about how long it may take
  std::int32_t max_rows = 0;       // of a step
  std::int32_t max_sequences = 0;  // of a step
  std::int32_t max_len = 0;        // of a prompt
  std::int32_t max_rank = 0;       // of an adapter
};

// Requires that nothing is under way and that no adapter is there; leaves nothing behind but what
// the executor's handoff has learnt, and no counts. Where there is no room for adapters, or no
// worker is there in time, less is learnt, which the log says. A failure is one of the device.
// Nothing to do without a handoff.
Status calibrate(Executor& executor, AdapterStore& store, Device& device, PagePool& pool,
                 const ModelSpec& config, DType dtype, const Clock& clock,
                 const CalibrationOptions& options);

}  // namespace tandem
