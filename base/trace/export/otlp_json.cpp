#include "base/trace/export/otlp_json.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <string_view>

#include "base/text/json_string.h"

namespace tandem {
namespace {

constexpr int kStatusError = 2;  // STATUS_CODE_ERROR

class Attributes {
 public:
  explicit Attributes(std::string& out) : out_(out) { out_ += "\"attributes\":["; }
  void add(std::string_view name, std::string_view text) {
    key(name);
    out_ += "{\"stringValue\":";
    append_json_string(out_, text);
    out_ += "}}";
  }
  void add(std::string_view name, double number) {
    if (!std::isfinite(number)) return;  // JSON cannot represent it
    key(name);
    constexpr double kExact = 9007199254740992.0;  // 2^53
    if (number == std::floor(number) && std::abs(number) < kExact) {
      // protobuf's JSON writes 64-bit integers as strings.
      fmt::format_to(std::back_inserter(out_), "{{\"intValue\":\"{}\"}}}}",
                     static_cast<std::int64_t>(number));
    } else {
      out_ += "{\"doubleValue\":";
      append_json_number(out_, number);
      out_ += "}}";
    }
  }
  void end() { out_ += ']'; }

 private:
  void key(std::string_view name) {
    out_ += first_ ? "{\"key\":" : ",{\"key\":";
    first_ = false;
    append_json_string(out_, name);
    out_ += ",\"value\":";
  }

  std::string& out_;
  bool first_ = true;
};

void append_time(std::string& out, const OtlpSource& source, TimePoint at) {
  const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch());
  fmt::format_to(std::back_inserter(out), "\"{}\"", (source.epoch + since).count());
}

void append_span(std::string& out, const OtlpSource& source, const Span& span) {
  fmt::format_to(std::back_inserter(out), "{{\"traceId\":\"{}\",\"spanId\":\"{}\"",
                 trace_hex(span.context.trace), span_hex(span.context.span));
  if (span.context.parent != 0) {
    fmt::format_to(std::back_inserter(out), ",\"parentSpanId\":\"{}\"",
                   span_hex(span.context.parent));
  }
  out += ",\"name\":";
  append_json_string(out, span.name);
  fmt::format_to(std::back_inserter(out),
                 ",\"kind\":{},\"startTimeUnixNano\":", static_cast<int>(span.kind));
  append_time(out, source, span.begin);
  out += ",\"endTimeUnixNano\":";
  append_time(out, source, std::max(span.begin, span.end));
  out += ',';
  Attributes attributes(out);
  for (std::size_t i = 0; i < span.num_texts; ++i) {
    attributes.add(span.texts[i].name, span.texts[i].view());
  }
  for (std::size_t i = 0; i < span.num_numbers; ++i) {
    attributes.add(span.numbers[i].name, span.numbers[i].value);
  }
  attributes.end();
  if (span.failed) {
    fmt::format_to(std::back_inserter(out), ",\"status\":{{\"code\":{}}}", kStatusError);
  }
  out += '}';
}

}  // namespace

std::chrono::nanoseconds monotonic_epoch() {
  using std::chrono::duration_cast, std::chrono::nanoseconds;
  return duration_cast<nanoseconds>(std::chrono::system_clock::now().time_since_epoch()) -
         duration_cast<nanoseconds>(std::chrono::steady_clock::now().time_since_epoch());
}

std::string otlp_json(const OtlpSource& source, std::span<const Span> spans) {
  std::string out = "{\"resourceSpans\":[{\"resource\":{";
  Attributes resource(out);
  resource.add("service.name", source.service);
  resource.add("service.instance.id", source.instance);
  resource.add("service.version", source.version);
  resource.end();
  out += "},\"scopeSpans\":[{\"scope\":{\"name\":\"tandem\"},\"spans\":[";
  for (const Span& span : spans) {
    if (&span != spans.data()) out += ',';
    append_span(out, source, span);
  }
  out += "]}]}]}";
  return out;
}

}  // namespace tandem
