// Who a span belongs to, as W3C Trace Context has it: the ids of a request and of its caller's span
// travel in the header `traceparent`, so that what several processes say of it fits together.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tandem {

using TraceId = std::array<std::uint8_t, 16>;  // all 0: none
using SpanId = std::uint64_t;                  // 0: none

// A request's place in its trace. Copied as it is.
struct TraceContext {
  TraceId trace{};
  SpanId span = 0;       // ours of the request
  SpanId parent = 0;     // the caller's; 0: the trace begins here
  bool sampled = false;  // spans of it are recorded

  bool valid() const { return trace != TraceId{}; }
  // Of what is done for it: a span of its own below ours.
  TraceContext child() const;
};

// Never 0. Any thread.
SpanId new_span_id();

// What a caller's header says: `span` is the caller's, `sampled` its flag. Nothing: it is no such
// header, or of a version that cannot be read; it is then as if there were none. Later versions are
// read as version 0, as the specification asks for.
std::optional<TraceContext> read_traceparent(std::string_view header);

// "00-TRACE-SPAN-FLAGS", for who is asked on behalf of it.
std::string traceparent(const TraceContext& context);

std::string trace_hex(const TraceId& trace);  // 32 digits
std::string span_hex(SpanId span);            // 16 digits

// Of a request that comes with this header, or with none (empty). The caller's flag is followed;
// where there is no caller, so many of a hundred traces are sampled, by their ids. Not `on`:
// nothing is sampled, and only a caller's ids are kept, with its own span.
TraceContext begin_trace(std::string_view header, bool on, double ratio);

}  // namespace tandem
