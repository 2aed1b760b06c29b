// What commands that serve are told of tracing.
#pragma once

#include <memory>
#include <string>

#include "base/settings/settings.h"
#include "base/status.h"
#include "base/trace/export/tracing.h"

namespace tandem {

struct TraceSettings {
  std::string trace;          // file; empty: none
  double trace_mb = 256;      // of it and the one before it
  std::string otlp_endpoint;  // URL; empty: none
  double trace_sample = 1;
};

// Not `offered`: another command's, accepted in files.
void add_trace_settings(SettingsTable& table, TraceSettings& settings, bool offered = true);
// Null: it is not wanted. `service`: "tandem serve"; `instance`: which one.
Result<std::unique_ptr<Tracing>> start_tracing(const TraceSettings& settings, std::string service,
                                               std::string instance);

}  // namespace tandem
