// A lower bound of the time for a load of requests.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tools/bench/measure/bench_trace.h"

namespace tandem {

struct ByteCosts {
  double copy = 0;                              // bytes per second
  double products = 0;                          // operations per second
  double weight_bytes = 0;                      // of the base model
  double token_bytes = 0;                       // keys and values of one token
  double token_products = 0;                    // operations per prompt token
  std::map<std::string, double> adapter_bytes;  // missing: 0 bytes
  // Limits of a step and of the device's memory.
  std::int32_t max_sequences = 0;
  std::int32_t max_prompt_tokens = 0;
  double pool_bytes = 0;  // for keys, values and adapters
};

// Seconds from the first arrival to the last answer if a step only read, at copy speed, the base's
// weights, the keys and values of its sequences, and each adapter in use once, while the arithmetic
// of prompts ran in parallel. Requests start in their order, each as soon as it and its adapter
// fit. These steps are never longer than real ones of the same rows; loads of adapters, cold starts
// and the host's work cost nothing.
double least_seconds(const ArrivalTrace& trace, const ByteCosts& costs);

}  // namespace tandem
