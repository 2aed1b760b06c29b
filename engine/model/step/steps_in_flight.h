// How many steps are on their way through a device at once.
//
// Two: while one runs, the next is enqueued, so that the device never waits for the CPU. A third
// would begin no sooner and would be planned without knowing more. With more than two, two more
// things must grow: the device keeps what the last step sampled, so that placeholders can name the
// step before theirs alone, and a sequence's penalties would look at several such placeholders.
#pragma once

#include <cstddef>

namespace tandem {

inline constexpr std::size_t kMaxStepsInFlight = 2;

}  // namespace tandem
