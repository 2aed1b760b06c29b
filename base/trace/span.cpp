#include "base/trace/span.h"

#include <algorithm>
#include <cstring>

namespace tandem {

Span& Span::add(const char* key, double value) {
  if (num_numbers < numbers.size()) numbers[num_numbers++] = {key, value};
  return *this;
}

Span& Span::add(const char* key, std::string_view text) {
  if (num_texts == texts.size()) return *this;
  Text& to = texts[num_texts++];
  to.name = key;
  std::size_t size = std::min(text.size(), to.bytes.size());
  if (size < text.size()) {
    while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0U) == 0x80U) --size;
  }
  std::memcpy(to.bytes.data(), text.data(), size);
  to.size = static_cast<std::uint8_t>(size);
  return *this;
}

Span request_span(const char* name, const TraceContext& context, TimePoint begin, TimePoint end) {
  Span span;
  span.name = name;
  span.context = context;
  span.begin = begin;
  span.end = end;
  return span;
}

Span device_span(const char* name, SpanTrack track, TimePoint begin, TimePoint end) {
  Span span;
  span.name = name;
  span.track = track;
  span.begin = begin;
  span.end = end;
  return span;
}

}  // namespace tandem
