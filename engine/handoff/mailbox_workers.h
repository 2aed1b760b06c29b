// The workers of a mailbox, as who plans sees them.
#pragma once

#include <cstdint>

namespace tandem {

struct MailboxWorkers {
  std::uint64_t all = 0;     // mask of the worker slots to which anything could be handed now
  std::uint64_t asleep = 0;  // of these
  double awake_in = 0;       // seconds until these are awake, as expected if they are woken now
  // As WorkerWakes: of all, if they are woken now, and of those that are awake.
  double drowsy_for = 0, awake_drowsy_for = 0;
};

}  // namespace tandem
