// What a load of requests takes at least, whatever serves it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tools/bench/measure/bench_trace.h"

namespace tandem {

struct ByteCosts {
  double copy = 0;                              // bytes a second
  double products = 0;                          // operations a second
  double weight_bytes = 0;                      // of the base
  double token_bytes = 0;                       // keys and values of a token
  double token_products = 0;                    // operations for a token of a prompt
  std::map<std::string, double> adapter_bytes;  // none: of no size
  // What a step and the device's memory have room for.
  std::int32_t max_sequences = 0;
  std::int32_t max_prompt_tokens = 0;
  double pool_bytes = 0;  // for keys, values and adapters
};

// Seconds from the first arrival to the last answer if a step did nothing but read, at copy speed,
// the base's weights, the keys and values of its sequences and once each adapter that one of them
// has, and prompts' arithmetic ran beside that. Requests are taken in their order, each when there
// is room for all of it and its adapter. Such steps are never longer than real ones of the same
// rows; adapters' loads, cold starts and what the host does cost nothing.
double least_seconds(const ArrivalTrace& trace, const ByteCosts& costs);

}  // namespace tandem
