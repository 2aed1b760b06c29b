#include "tools/cli/trace_settings.h"

#include <utility>

#include "tools/cli/version.h"

namespace tandem {

void add_trace_settings(SettingsTable& table, TracingOptions& options, bool offered) {
  table.group("Tracing");
  const auto add = [&](SettingsMember member, const char* key, const char* help) -> SettingsField& {
    SettingsField& row = table.add(std::move(member), key, help);
    return offered ? row : row.in_file_only();
  };
  add(options.file, "trace",
      "file for the times of requests and steps, which ui.perfetto.dev opens")
      .meta("FILE");
  add(in_mb(options.max_file_bytes), "trace_mb",
      "size limit of the trace; at half of it the file is renamed to FILE.1 and a new one begins")
      .range(1, 1048576)
      .expert();
  add(options.otlp_endpoint, "otlp_endpoint",
      "OpenTelemetry collector that gets the spans of requests, as in http://HOST:4318")
      .meta("URL");
  add(options.sample, "trace_sample",
      "share of requests that are traced, unless their caller has decided (header traceparent)")
      .meta("SHARE")
      .range(0, 1);
}

Result<std::unique_ptr<Tracing>> start_tracing(TracingOptions options, std::string service,
                                               std::string instance) {
  options.service = std::move(service);
  options.instance = std::move(instance);
  options.version = version_number();
  return Tracing::create(options);
}

}  // namespace tandem
