// A recorded activity and its duration. Trivially copied, so that recording needs no memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/clock.h"
#include "base/trace/trace_context.h"

namespace tandem {

// The track on which a span is drawn. Requests overlap, so each has its own line; spans of the
// other tracks follow one another within a lane.
enum class SpanTrack : std::uint8_t { request, steps, loads, workers };
enum class SpanKind : std::uint8_t {
  internal = 1,
  server = 2,
  client = 3
};  // numbered as in OTLP itself

struct Span {
  struct Number {
    const char* name;
    double value;
  };
  // Longer texts are cut between UTF-8 characters.
  struct Text {
    const char* name;
    std::array<char, 80> bytes;
    std::uint8_t size;
    std::string_view view() const { return {bytes.data(), size}; }
  };

  const char* name = "";  // a literal, as are all names here
  SpanTrack track = SpanTrack::request;
  SpanKind kind = SpanKind::internal;
  bool failed = false;
  std::uint8_t num_numbers = 0;
  std::uint8_t num_texts = 0;
  std::uint16_t lane = 0;  // in the track: index of the device, worker group or load position
  TraceContext context;    // invalid: not part of a single request
  TimePoint begin, end;
  std::array<Number, 6> numbers;
  std::array<Text, 4> texts;

  // Attributes beyond the capacity are dropped.
  Span& add(const char* key, double value);
  Span& add(const char* key, std::string_view text);
};

// A span of a request; `name` is a literal.
Span request_span(const char* name, const TraceContext& context, TimePoint begin, TimePoint end);
// A span of the device, its link or its workers.
Span device_span(const char* name, SpanTrack track, TimePoint begin, TimePoint end);

}  // namespace tandem
