#include "base/trace/trace_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

namespace tandem {
namespace {

constexpr std::size_t kTraceDigits = 32;
constexpr std::size_t kSpanDigits = 16;
// "00-" trace "-" span "-" flags
constexpr std::size_t kTraceAt = 3;
constexpr std::size_t kSpanAt = kTraceAt + kTraceDigits + 1;
constexpr std::size_t kFlagsAt = kSpanAt + kSpanDigits + 1;
constexpr std::size_t kLength = kFlagsAt + 2;
constexpr unsigned kSampledFlag = 1;

std::uint64_t random_bits() {
  thread_local std::mt19937_64 generator = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  return generator();
}

// Only lower-case, as the specification demands.
std::optional<std::uint64_t> read_hex(std::string_view digits) {
  std::uint64_t value = 0;
  for (const char c : digits) {
    unsigned digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<unsigned>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<unsigned>(c - 'a') + 10;
    } else {
      return std::nullopt;
    }
    value = value << 4 | digit;
  }
  return value;
}

void put(TraceId& trace, std::size_t at, std::uint64_t value) {
  for (std::size_t i = 0; i < 8; ++i) {
    trace[at + i] = static_cast<std::uint8_t>(value >> (56 - 8 * i));
  }
}

std::uint64_t low_half(const TraceId& trace) {
  std::uint64_t value = 0;
  for (std::size_t i = 8; i < trace.size(); ++i) value = value << 8 | trace[i];
  return value;
}

// Uses the low 56 bits, which are random, so that every process involved decides alike.
bool falls_within(const TraceId& trace, double ratio) {
  constexpr double kRange = 72057594037927936.0;  // 2^56
  const auto bits = low_half(trace) & ((std::uint64_t{1} << 56) - 1);
  return static_cast<double>(bits) < ratio * kRange;
}

}  // namespace

TraceContext TraceContext::child() const {
  return {trace, new_span_id(), span, sampled};
}

SpanId new_span_id() {
  return std::max<std::uint64_t>(random_bits(), 1);
}

std::optional<TraceContext> read_traceparent(std::string_view header) {
  if (header.size() < kLength) return std::nullopt;
  const auto version = read_hex(header.substr(0, 2));
  if (!version || *version == 0xFF) return std::nullopt;
  if (header[2] != '-' || header[kSpanAt - 1] != '-' || header[kFlagsAt - 1] != '-') {
    return std::nullopt;
  }
  if (header.size() > kLength && (*version == 0 || header[kLength] != '-')) return std::nullopt;
  const auto high = read_hex(header.substr(kTraceAt, 16));
  const auto low = read_hex(header.substr(kTraceAt + 16, 16));
  const auto span = read_hex(header.substr(kSpanAt, kSpanDigits));
  const auto flags = read_hex(header.substr(kFlagsAt, 2));
  if (!high || !low || !span || !flags) return std::nullopt;
  TraceContext context;
  put(context.trace, 0, *high);
  put(context.trace, 8, *low);
  context.span = *span;
  context.sampled = (*flags & kSampledFlag) != 0;
  if (!context.valid() || context.span == 0) return std::nullopt;
  return context;
}

std::string traceparent(const TraceContext& context) {
  return fmt::format("00-{}-{}-{:02x}", trace_hex(context.trace), span_hex(context.span),
                     context.sampled ? kSampledFlag : 0U);
}

std::string trace_hex(const TraceId& trace) {
  std::string text;
  for (const std::uint8_t byte : trace) text += fmt::format("{:02x}", byte);
  return text;
}

std::string span_hex(SpanId span) {
  return fmt::format("{:016x}", span);
}

TraceContext begin_trace(std::string_view header, bool on, double ratio) {
  const auto caller = header.empty() ? std::nullopt : read_traceparent(header);
  if (!on) {
    return caller.value_or(TraceContext{});  // so that the next service sees the same caller
  }
  TraceContext context;
  if (caller) {
    context = caller->child();
  } else {
    put(context.trace, 0, random_bits());
    put(context.trace, 8, std::max<std::uint64_t>(random_bits(), 1));
    context.span = new_span_id();
    context.sampled = falls_within(context.trace, ratio);
  }
  return context;
}

}  // namespace tandem
