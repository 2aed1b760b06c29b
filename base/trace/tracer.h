// Collects spans while a process runs: each thread records into its own ring, from which one reader
// takes them. Recording never waits; spans that find their ring full are dropped and counted.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/trace/span.h"

namespace tandem::trace {

// both relaxed: they guard nothing, and a span more or less does no harm
namespace detail {
inline std::atomic<bool> is_on{false};
inline std::atomic<double> ratio{1};
}  // namespace detail

// The only cost of tracing when it is off: check this before preparing a span.
inline bool on() {
  return detail::is_on.load(std::memory_order_relaxed);
}
// `ratio`: the sampled fraction of the traces that begin here.
void switch_on(double ratio = 1);
void switch_off();

// Calls begin_trace() with the current settings.
TraceContext begin(std::string_view traceparent);

// The number of spans that one thread may record before they are taken.
inline constexpr std::size_t kRingSpans = 2048;

// Callable on any thread while on(). Neither waits nor throws. A thread's first span allocates its
// ring.
void record(const Span& span) noexcept;

// Appends the spans recorded since the last call to `spans`; each thread's are in order. Called by
// one thread at a time.
void take(std::vector<Span>& spans);

// The fate of all spans since the process started.
struct Counts {
  std::atomic<std::uint64_t> recorded{0};
  std::atomic<std::uint64_t> dropped{0};       // a ring was full
  std::atomic<std::uint64_t> written{0};       // into the file
  std::atomic<std::uint64_t> not_written{0};   // the file was full, or failed
  std::atomic<std::uint64_t> exported{0};      // accepted by a collector
  std::atomic<std::uint64_t> not_exported{0};  // the queue was full, or the collector refused
};
Counts& counts();
// In Prometheus's format; empty if nothing has ever been traced.
std::string metrics_text();

}  // namespace tandem::trace
