// Runs the steps of a recording on an executor, without an engine.
//
// The plans are run one by one, in their order, in the pages and with the tokens that they name;
// adapters lie in pages behind those. All that varied when it was recorded (which steps overlapped,
// who computed a cold adapter, which slot it had) changes nothing of the tokens, but for ties that
// rounding decides.
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
  std::int64_t number = 0;  // from 1
  std::int32_t rows = 0;
  std::int32_t entries = 0;
  double seconds = 0;
  std::int32_t compared = 0;   // tokens
  std::int32_t different = 0;  // of these
};

struct ReplayOutcome {
  std::int64_t steps = 0;
  std::int64_t compared = 0;
  std::int64_t different = 0;
};

// `told` is called after each step. The whole file is checked first: nothing is run of one that is
// cut off, damaged, or of another model, or whose adapters' folders hold something else by now.
Result<ReplayOutcome> replay_recording(const std::string& path, const ModelSpec& config,
                                       const WeightSource& weights, Device& device,
                                       const Clock& clock, const LoadProgress& progress,
                                       const std::function<void(const ReplayedStep&)>& told);

}  // namespace tandem
