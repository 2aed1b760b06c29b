// Engines that this process cannot fully see, because they run in a container with its own
// processes and often its own /dev/shm.
#pragma once

#include "base/status.h"

namespace tandem {

// The error to report if no region of engine `pid` is found. unavailable, with a remedy: the
// process serves in another mount namespace and has another /dev/shm; not_found: there is no such
// engine.
Status explain_missing_region(int pid);

// Ok if the process that has this pid in our namespace has the control region of engine `pid`
// mapped; then it is this engine. unavailable, with a remedy: the engine lives in another pid
// namespace, so the pid may belong to a different process here; not_found: it has ended.
Status check_maker(int pid);

}  // namespace tandem
