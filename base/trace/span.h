// Something that took time, as it is recorded: copied as it is, so that recording takes no memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/clock.h"
#include "base/trace/trace_context.h"

namespace tandem {

// On what it is drawn. Requests overlap, each has a line of its own; what lies on one of the others
// comes one after another.
enum class SpanTrack : std::uint8_t { request, steps, loads, workers };
enum class SpanKind : std::uint8_t {
  internal = 1,
  server = 2,
  client = 3
};  // as OTLP numbers them

struct Span {
  struct Number {
    const char* name;
    double value;
  };
  // Cut where it is longer, between characters of UTF-8.
  struct Text {
    const char* name;
    std::array<char, 80> bytes;
    std::uint8_t size;
    std::string_view view() const { return {bytes.data(), size}; }
  };

  const char* name = "";  // a literal, like all names here
  SpanTrack track = SpanTrack::request;
  SpanKind kind = SpanKind::internal;
  bool failed = false;
  std::uint8_t num_numbers = 0;
  std::uint8_t num_texts = 0;
  std::uint16_t lane = 0;  // of the track: which device, group of workers, or place of loads
  TraceContext context;    // not valid: of no request alone
  TimePoint begin, end;
  std::array<Number, 6> numbers;
  std::array<Text, 4> texts;

  // Beyond the room there is: dropped.
  Span& add(const char* key, double value);
  Span& add(const char* key, std::string_view text);
};

// Of a request: `name` is a literal.
Span request_span(const char* name, const TraceContext& context, TimePoint begin, TimePoint end);
// Of the device, its link or its workers.
Span device_span(const char* name, SpanTrack track, TimePoint begin, TimePoint end);

}  // namespace tandem
