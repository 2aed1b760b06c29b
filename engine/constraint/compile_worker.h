// The process that compiles constraints: strangers write them, and what they cost nobody knows
// before. It is confined like a CPU worker, may take so much memory, and each constraint so much
// processor time; it reads vocabulary and jobs from a socket, and never from a file.
#pragma once

#include <cstddef>

#include "base/status.h"

namespace tandem {

// Until the other end of `channel` is closed. A constraint that takes more processor time than its
// job allows ends the process by SIGPROF; one that takes more than `memory_bytes` is answered, and
// then the process returns from here, to begin anew. Call it with one thread.
Status run_compile_worker(int channel, std::size_t memory_bytes);

}  // namespace tandem
