// A recording of what a function enqueues.
#pragma once

#include <functional>
#include <memory>

#include "base/status.h"
#include "gpu/device.h"

namespace tandem {

// Nothing of it runs before the recording is launched. An exception of `enqueue` ends the recording
// and goes on: else what follows would be recorded, and not run.
inline Result<std::unique_ptr<Graph>> record(Stream& stream, const std::function<void()>& enqueue) {
  TANDEM_TRY(stream.begin_recording());
  try {
    enqueue();
  } catch (...) {
    (void)stream.end_recording();
    throw;
  }
  return stream.end_recording();
}

}  // namespace tandem
