// What a request for an adapter that is not on the device waits for or costs, as a scheduler of
// many engines sees it: whole adapters. The engine's own planner weighs layers (cost_model.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace tandem {

struct ColdStartCosts {
  // From host memory to the device.
  double link_bytes_per_s = 55e9;
  double load_s = 0;  // of each load beyond its bytes
  // From disk or another engine into host memory.
  double fetch_bytes_per_s = 2.5e9;
  double fetch_s = 1e-3;  // of each fetch beyond its bytes
  // CPU workers in place of a load: what they add to a step. A worker's share of the rows is its
  // own, so more workers take less. Nothing on the CPU: cpu_assist is false.
  bool cpu_assist = true;
  double cpu_step_s = 0.75e-3;      // for all layers, however few the rows
  double cpu_rank_token_s = 17e-6;  // of one worker, for each rank x token

  double load_time_s(std::int64_t bytes) const {
    return static_cast<double>(bytes) / link_bytes_per_s + load_s;
  }
  double fetch_time_s(std::int64_t bytes) const {
    return static_cast<double>(bytes) / fetch_bytes_per_s + fetch_s;
  }
  // What a step with these cold rows takes longer; without workers no step ends.
  double cpu_time_s(std::int64_t rank_tokens, std::int32_t workers) const {
    if (!cpu_assist || workers <= 0) return std::numeric_limits<double>::infinity();
    return cpu_step_s + cpu_rank_token_s * static_cast<double>(rank_tokens) / workers;
  }
};

}  // namespace tandem
