// Where spans go while a process runs: into a ring of the thread that records them, from which one
// reader takes them. Recording waits for nobody; what finds its ring full is dropped, and counted.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/trace/span.h"

namespace tandem::trace {

// relaxed, both: they guard nothing; a span more or less is no harm
namespace detail {
inline std::atomic<bool> is_on{false};
inline std::atomic<double> ratio{1};
}  // namespace detail

// All that tracing costs where it is off: ask before anything is prepared for a span.
inline bool on() {
  return detail::is_on.load(std::memory_order_relaxed);
}
// Of traces that begin here, the share that is sampled.
void switch_on(double ratio = 1);
void switch_off();

// As begin_trace(), by what holds.
TraceContext begin(std::string_view traceparent);

// Spans that one thread may record before they are taken.
inline constexpr std::size_t kRingSpans = 2048;

// Any thread, while on(). Neither waits nor throws. A thread's first span takes memory for its
// ring.
void record(const Span& span) noexcept;

// What has been recorded since, at the end of `spans`: of each thread in its order. One thread at a
// time.
void take(std::vector<Span>& spans);

// What became of spans, from the start of the process.
struct Counts {
  std::atomic<std::uint64_t> recorded{0};
  std::atomic<std::uint64_t> dropped{0};       // a ring was full
  std::atomic<std::uint64_t> written{0};       // into the file
  std::atomic<std::uint64_t> not_written{0};   // it was full, or failed
  std::atomic<std::uint64_t> exported{0};      // a collector has taken them
  std::atomic<std::uint64_t> not_exported{0};  // the queue was full, or the collector refused
};
Counts& counts();
// For Prometheus; empty while nothing has ever been traced.
std::string metrics_text();

}  // namespace tandem::trace
