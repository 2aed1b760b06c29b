// W3C Trace Context: assigns spans to a request. The ids of the request and of its caller's span
// travel in the header `traceparent`, so that the spans of several processes fit together.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tandem {

using TraceId = std::array<std::uint8_t, 16>;  // all 0: none
using SpanId = std::uint64_t;                  // 0: none

// A request's place in its trace. Trivially copied.
struct TraceContext {
  TraceId trace{};
  SpanId span = 0;       // this process's span of the request
  SpanId parent = 0;     // the caller's span; 0: the trace begins here
  bool sampled = false;  // its spans are recorded

  bool valid() const { return trace != TraceId{}; }
  // For work on behalf of it: has a span of its own below this one.
  TraceContext child() const;
};

// Never 0. Callable on any thread.
SpanId new_span_id();

// Reads a caller's header: `span` is the caller's, `sampled` its flag. Nothing: it is not such a
// header, or its version cannot be read, and it is treated as missing. Later versions are read as
// version 0, as the specification demands.
std::optional<TraceContext> read_traceparent(std::string_view header);

// "00-TRACE-SPAN-FLAGS", for services called on behalf of it.
std::string traceparent(const TraceContext& context);

std::string trace_hex(const TraceId& trace);  // 32 digits
std::string span_hex(SpanId span);            // 16 digits

// The context of a request with this header, or none (empty). A caller's flag is followed; without
// a caller, the fraction `ratio` of traces is sampled, chosen by id. If not `on`, nothing is
// sampled, and only a caller's ids are kept, including its span.
TraceContext begin_trace(std::string_view header, bool on, double ratio);

}  // namespace tandem
