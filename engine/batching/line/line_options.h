// In which order sequences wait: what can be chosen.
#pragma once

#include <cstdint>

#include "engine/service/engine_defaults.h"

namespace tandem {

struct LineOptions {
  bool by_priority = true;            // else requests' priorities count for nothing
  bool fair = false;                  // tenants take turns
  std::int32_t adapter_clusters = 0;  // distinct adapters in a batch; 0: any number
  // Admissions of requests that were due later; then nobody passes any more.
  std::int32_t max_passed_over = engine_defaults::kMaxPassedOver;
  bool early_abort = true;  // of requests with a first-token deadline, and no others
};

}  // namespace tandem
