// What commands that serve are told of tracing.
#pragma once

#include <memory>
#include <string>

#include "base/settings/settings.h"
#include "base/status.h"
#include "base/trace/export/tracing.h"

namespace tandem {

// Not `offered`: another command's, accepted in files.
void add_trace_settings(SettingsTable& table, TracingOptions& options, bool offered = true);
// Null: it is not wanted. `service`: "tandem serve"; `instance`: which one.
Result<std::unique_ptr<Tracing>> start_tracing(TracingOptions options, std::string service,
                                               std::string instance);

}  // namespace tandem
