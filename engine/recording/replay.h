// Runs the steps of a recording on an executor, without an engine.
//
// The plans run one at a time, in their order, with the pages and tokens that they contain;
// adapters are placed in pages after those. Overlap of steps, who computed a cold adapter, and its
// slot varied during the recording but do not change the tokens, except for ties decided by
// rounding.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "engine/model/weights/model_weights.h"
#include "gpu/device.h"

namespace tandem {

struct ReplayedStep {
  std::int64_t number = 0;  // counted from 1
  std::int32_t rows = 0;
  std::int32_t entries = 0;
  double seconds = 0;
  std::int32_t compared = 0;   // number of tokens
  std::int32_t different = 0;  // of the compared tokens
};

struct ReplayOutcome {
  std::int64_t steps = 0;
  std::int64_t compared = 0;
  std::int64_t different = 0;
};

// Calls `told` after each step. The whole file is checked first: nothing is run if it is truncated,
// damaged or of another model, or if an adapter's folder has changed since.
Result<ReplayOutcome> replay_recording(const std::string& path, const ModelSpec& spec,
                                       const WeightSource& weights, Device& device,
                                       const Clock& clock, const LoadProgress& progress,
                                       const std::function<void(const ReplayedStep&)>& told);

}  // namespace tandem
