// Options for the order in which sequences wait.
#pragma once

#include <cstdint>

namespace tandem {

struct LineOptions {
  bool by_priority = true;            // false: requests' priorities are ignored
  bool fair = false;                  // tenants take turns
  std::int32_t adapter_clusters = 0;  // distinct adapters in a batch; 0: any number
  // The number of later requests that may be admitted before a waiting one; after that none may.
  std::int32_t max_passed_over = 64;
  bool early_abort = true;  // give up requests that will miss their first-token deadline
};

}  // namespace tandem
