// Engines that this process cannot see as it should: a container has processes, and often a
// /dev/shm, of its own.
#pragma once

#include "base/status.h"

namespace tandem {

// What to say where no region of an engine `pid` is found. unavailable, with what to do: it serves
// in another mount namespace, whose /dev/shm is not the one seen here; not_found: nothing of that
// kind is known.
Status explain_missing_region(int pid);

// Ok where the process of that number, as seen from here, has the control region of an engine `pid`
// mapped: then it is this engine. unavailable, with what to do: the engine lives and is not seen,
// in a pid namespace of its own, and the number may be a stranger's; not_found: it has ended.
Status check_maker(int pid);

}  // namespace tandem
