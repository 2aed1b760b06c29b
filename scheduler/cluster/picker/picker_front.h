// The picker's HTTP interface for operators; clients' requests do not come here.
#pragma once

#include "base/http/service/rest_service.h"
#include "scheduler/cluster/picker/picker_host.h"

namespace tandem {

// GET /health, /ready, /metrics, /v1/stats. Thread-safe.
class PickerFront final : public RestService {
 public:
  // `host` outlives it. If its options have a key, only /health and /ready are open without it, and
  // /metrics if `metrics_without_key`.
  explicit PickerFront(PickerHost& host, bool metrics_without_key = false);
};

}  // namespace tandem
