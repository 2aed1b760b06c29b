// The number of steps that are in flight on a device at once.
//
// It is two: while one runs, the next is enqueued, so that the device never waits for the CPU. A
// third would begin no sooner, and would be planned with less information. Two things would have to
// be extended for it: the device keeps only the samples of the last step, so placeholders can only
// name the step directly before theirs, and a sequence's penalties would have several such
// placeholders.
#pragma once

#include <cstddef>

namespace tandem {

inline constexpr std::size_t kMaxStepsInFlight = 2;

}  // namespace tandem
