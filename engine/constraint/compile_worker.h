// The process that compiles constraints. They are untrusted and their cost is unpredictable, so the
// process is confined like a CPU worker, has a memory limit, and each constraint a limit on
// processor time. It reads vocabulary and jobs from a socket, and no files.
#pragma once

#include <cstddef>

#include "base/status.h"

namespace tandem {

// Serves until the other end of `channel` is closed. A constraint that takes more processor time
// than its job allows ends the process by SIGPROF. One that takes more than `memory_bytes` is
// answered, and then this function returns so that the process is restarted. The process must be
// single-threaded.
Status run_compile_worker(int channel, std::size_t memory_bytes);

}  // namespace tandem
