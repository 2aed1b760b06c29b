// The state of a mailbox's workers, as planners use it.
#pragma once

#include <cstdint>

namespace tandem {

struct MailboxWorkers {
  std::uint64_t all = 0;     // mask of the worker slots that can be given jobs now
  std::uint64_t asleep = 0;  // of these
  double awake_in = 0;       // expected seconds until these are awake, if they are woken now
  // As WorkerWakes: of all if they are woken now, and of the awake ones alone.
  double just_woken_for = 0, awake_just_woken_for = 0;
};

}  // namespace tandem
