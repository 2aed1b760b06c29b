// The process on both sides of a router that is measured: two engines that answer with tokens at a
// steady pace, and clients that ask.
#pragma once

#include <cstdint>

#include "tools/bench/relay_cost.h"

namespace tandem {

struct RelayOrder {
  std::int64_t port = 0;  // a router's, or a stub's
  std::int64_t requests = 0;
};

struct RelayFound {
  double seconds = 0;
  RelayDelay delay;
  std::int64_t failed = 0;  // streams that were not whole
};

// Writes the stubs' two ports to `out`; then, as often as it reads an order from `in`, runs it and
// writes what it found. Returns when `in` ends.
void run_relay_stub(const RelayLoad& load, int in, int out);

}  // namespace tandem
