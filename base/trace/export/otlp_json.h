// Spans in the JSON encoding of OpenTelemetry's protocol (OTLP 1.x, /v1/traces).
#pragma once

#include <chrono>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/trace/span.h"

namespace tandem {

// The origin of the spans, for the collector.
struct OtlpSource {
  std::string service;   // service.name
  std::string instance;  // service.instance.id
  std::string version;   // service.version
  // The time of day at which the machine's monotonic clock was zero.
  std::chrono::nanoseconds epoch{};
};

// The epoch, assuming that the clock is right now.
std::chrono::nanoseconds monotonic_epoch();

// A complete request body. Spans must belong to requests (their context is valid).
std::string otlp_json(const OtlpSource& source, std::span<const Span> spans);

}  // namespace tandem
