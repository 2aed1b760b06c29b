// The process on both sides of a measured router: two engines that answer with tokens at a steady
// pace, and the clients.
#pragma once

#include <cstdint>

#include "tools/bench/relay_cost.h"

namespace tandem {

struct RelayOrder {
  std::int64_t port = 0;  // of the router or of a stub
  std::int64_t requests = 0;
};

struct RelayFound {
  double seconds = 0;
  RelayDelay delay;
  std::int64_t failed = 0;  // incomplete streams
};

// Writes the ports of the two stubs to `out`; then reads orders from `in`, and for each one runs it
// and writes its result. Returns when `in` ends.
void run_relay_stub(const RelayLoad& load, int in, int out);

}  // namespace tandem
