// Settings of tracing for commands that serve.
#pragma once

#include <memory>
#include <string>

#include "base/settings/settings.h"
#include "base/status.h"
#include "base/trace/export/tracing.h"

namespace tandem {

// `offered` false: the settings belong to another command and are accepted in files only.
void add_trace_settings(SettingsTable& table, TracingOptions& options, bool offered = true);
// Returns null if tracing is off. `service`: "tandem serve"; `instance`: which of several.
Result<std::unique_ptr<Tracing>> start_tracing(TracingOptions options, std::string service,
                                               std::string instance);

}  // namespace tandem
