#include "tools/cli/trace_settings.h"

#include <utility>

#include "tools/cli/version.h"

namespace tandem {

void add_trace_settings(SettingsTable& table, TraceSettings& settings, bool offered) {
  table.group("Tracing");
  const auto add = [&](auto& member, const char* key, const char* help) -> SettingsField& {
    SettingsField& row = table.add(member, key, help);
    return offered ? row : row.in_file_only();
  };
  add(settings.trace, "trace",
      "file for the times of requests and steps, which ui.perfetto.dev opens")
      .meta("FILE");
  add(settings.trace_mb, "trace_mb",
      "size limit of the trace; at half of it the file is renamed to FILE.1 and a new one begins")
      .meta("MB")
      .range(1, 1048576)
      .expert();
  add(settings.otlp_endpoint, "otlp_endpoint",
      "OpenTelemetry collector that gets the spans of requests, as in http://HOST:4318")
      .meta("URL");
  add(settings.trace_sample, "trace_sample",
      "share of requests that are traced, unless their caller has decided (header traceparent)")
      .meta("SHARE")
      .range(0, 1);
}

Result<std::unique_ptr<Tracing>> start_tracing(const TraceSettings& settings, std::string service,
                                               std::string instance) {
  TracingOptions options;
  options.file = settings.trace;
  options.max_file_bytes = static_cast<std::uint64_t>(settings.trace_mb * 1024 * 1024);
  options.otlp_endpoint = settings.otlp_endpoint;
  options.sample = settings.trace_sample;
  options.service = std::move(service);
  options.instance = std::move(instance);
  options.version = version_number();
  return Tracing::create(options);
}

}  // namespace tandem
