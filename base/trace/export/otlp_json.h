// Spans as OpenTelemetry's protocol has them, in its JSON encoding (OTLP 1.x, /v1/traces).
#pragma once

#include <chrono>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/trace/span.h"

namespace tandem {

// Who the spans are from, for the collector.
struct OtlpSource {
  std::string service;   // service.name
  std::string instance;  // service.instance.id
  std::string version;   // service.version
  // The time of day at the beginning of the machine's monotonic clock.
  std::chrono::nanoseconds epoch{};
};

// That of a clock that is right now.
std::chrono::nanoseconds monotonic_epoch();

// A whole request body. Spans must be of requests (their context is valid).
std::string otlp_json(const OtlpSource& source, std::span<const Span> spans);

}  // namespace tandem
