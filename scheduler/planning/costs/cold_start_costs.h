// Costs and waits of a request whose adapter is not on the device, for schedulers of many engines:
// by whole adapters. The engine's own planner uses costs by layer (cost_model.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace tandem {

struct ColdStartCosts {
  // From host memory to the device.
  double link_bytes_per_s = 55e9;
  double load_s = 0;  // per load, beyond its bytes
  // From disk or another engine into host memory.
  double fetch_bytes_per_s = 2.5e9;
  double fetch_s = 1e-3;  // per fetch, beyond its bytes
  // Seconds that CPU workers in place of a load add to a step. Workers divide the rows, so more
  // workers take less time. cpu_assist is false if nothing is computed on the CPU.
  bool cpu_assist = true;
  double cpu_step_s = 0.75e-3;      // for all layers, however few the rows
  double cpu_rank_token_s = 17e-6;  // for one worker, per rank x token

  double load_time_s(std::int64_t bytes) const {
    return static_cast<double>(bytes) / link_bytes_per_s + load_s;
  }
  double fetch_time_s(std::int64_t bytes) const {
    return static_cast<double>(bytes) / fetch_bytes_per_s + fetch_s;
  }
  // Seconds that these cold rows add to a step; infinite without workers.
  double cpu_time_s(std::int64_t rank_tokens, std::int32_t workers) const {
    if (!cpu_assist || workers <= 0) return std::numeric_limits<double>::infinity();
    return cpu_step_s + cpu_rank_token_s * static_cast<double>(rank_tokens) / workers;
  }
};

}  // namespace tandem
