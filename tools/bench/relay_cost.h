// The router's cost of a request: CPU time of its process over loopback, with stub engines and the
// clients in another process.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace tandem {

struct RelayLoad {
  std::int64_t requests = 3000;
  std::int64_t concurrent = 256;
  std::int64_t tokens = 32;  // per answer, 2 ms apart
};

// Medians at the client, which runs in the process of the engines.
struct RelayDelay {
  double first_event_us = 0;  // from request to the first event
  double event_us = 0;        // from the creation of an event in the engine to its arrival
};

struct RelayCost {
  double cpu_us = 0;  // CPU time of the router's process per request
  double requests_per_s = 0;
  RelayDelay relayed;
  RelayDelay direct;      // the same clients directly at an engine, alternating
  double memory_mib = 0;  // of the router's process, at the end
  double grown_mib = 0;   // growth of it since the end of the first round
};

// Forks, so this process must have no other thread. An incomplete answer is a failure.
Result<RelayCost> measure_relay(const RelayLoad& load);

}  // namespace tandem
