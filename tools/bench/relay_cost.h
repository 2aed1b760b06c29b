// What a request costs the router: its process's CPU over loopback, with stub engines and the load
// in a process of their own.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace tandem {

struct RelayLoad {
  std::int64_t requests = 3000;
  std::int64_t concurrent = 256;
  std::int64_t tokens = 32;  // of each answer, 2 ms from one to the next
};

// Medians at the client, which is in the process of the engines.
struct RelayDelay {
  double first_event_us = 0;  // from request to the first event
  double event_us = 0;        // from an event's making in the engine to its arrival
};

struct RelayCost {
  double cpu_us = 0;  // of the router's process, of each request
  double requests_per_s = 0;
  RelayDelay relayed;
  RelayDelay direct;      // the same clients at an engine, by turns
  double memory_mib = 0;  // of the router's process after all of it
  double grown_mib = 0;   // of that, since the first round ended
};

// Forks: no other thread may run in this process. Any answer that is not whole is a failure.
Result<RelayCost> measure_relay(const RelayLoad& load);

}  // namespace tandem
