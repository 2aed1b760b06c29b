#include "base/trace/tracer.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <new>

namespace tandem::trace {
namespace {

// One thread writes, another one reads.
struct Ring {
  std::vector<Span> spans = std::vector<Span>(kRingSpans);
  std::atomic<std::uint64_t> written{0};
  std::atomic<std::uint64_t> taken{0};
  std::atomic<bool> is_free{false};  // its thread has ended, so another may use it
};

struct Rings {
  std::mutex mutex;
  std::vector<std::unique_ptr<Ring>> all;  // guarded by mutex
};

// Never destroyed, because threads may record until the very end.
Rings& rings() {
  static Rings& instance = *new Rings;
  return instance;
}

class OwnRing {
 public:
  ~OwnRing() {
    // release: pairs with the acquire in take_free(): the next thread continues after our spans
    if (ring_ != nullptr) ring_->is_free.store(true, std::memory_order_release);
  }
  Ring& get() {
    if (ring_ == nullptr) ring_ = take_free();
    return *ring_;
  }

 private:
  static Ring* take_free() {
    const std::lock_guard lock(rings().mutex);
    for (const auto& ring : rings().all) {
      bool expected = true;
      // acquire: pairs with the destructor's release
      if (ring->is_free.compare_exchange_strong(expected, false, std::memory_order_acquire,
                                                std::memory_order_relaxed)) {
        return ring.get();
      }
    }
    rings().all.push_back(std::make_unique<Ring>());
    return rings().all.back().get();
  }

  Ring* ring_ = nullptr;
};

void count(std::atomic<std::uint64_t>& counter, std::uint64_t by = 1) {
  counter.fetch_add(by, std::memory_order_relaxed);
}

}  // namespace

Counts& counts() {
  static Counts instance;
  return instance;
}

void switch_on(double ratio) {
  detail::ratio.store(ratio, std::memory_order_relaxed);
  detail::is_on.store(true, std::memory_order_relaxed);
}

void switch_off() {
  detail::is_on.store(false, std::memory_order_relaxed);
}

TraceContext begin(std::string_view traceparent) {
  return begin_trace(traceparent, on(), detail::ratio.load(std::memory_order_relaxed));
}

void record(const Span& span) noexcept {
  thread_local OwnRing own;
  try {
    Ring& ring = own.get();
    const std::uint64_t at = ring.written.load(std::memory_order_relaxed);
    // acquire: pairs with the release in take(), which has copied the old span here
    if (at - ring.taken.load(std::memory_order_acquire) >= ring.spans.size()) {
      return count(counts().dropped);
    }
    ring.spans[at % ring.spans.size()] = span;
    // release: pairs with the acquire in take(), which then sees the whole span
    ring.written.store(at + 1, std::memory_order_release);
    count(counts().recorded);
  } catch (const std::bad_alloc&) {  // the traced work is worth more than its trace
    count(counts().dropped);
  }
}

void take(std::vector<Span>& spans) {
  const std::lock_guard lock(rings().mutex);
  for (const auto& ring : rings().all) {
    const std::uint64_t from = ring->taken.load(std::memory_order_relaxed);
    const std::uint64_t to = ring->written.load(std::memory_order_acquire);  // record()'s release
    spans.reserve(spans.size() + (to - from));  // here, so that no failure repeats spans
    for (std::uint64_t at = from; at < to; ++at) {
      spans.push_back(ring->spans[at % ring->spans.size()]);
    }
    ring->taken.store(to, std::memory_order_release);  // pairs with record()'s acquire
  }
}

std::string metrics_text() {
  const Counts& all = counts();
  const auto value = [](const std::atomic<std::uint64_t>& counter) {
    return counter.load(std::memory_order_relaxed);
  };
  if (value(all.recorded) + value(all.dropped) == 0) return {};
  return fmt::format(
      "# HELP tandem_trace_spans_total Spans by what became of them\n"
      "# TYPE tandem_trace_spans_total counter\n"
      "tandem_trace_spans_total{{state=\"recorded\"}} {}\n"
      "tandem_trace_spans_total{{state=\"written\"}} {}\n"
      "tandem_trace_spans_total{{state=\"exported\"}} {}\n"
      "# HELP tandem_trace_spans_dropped_total Spans that were lost, by where\n"
      "# TYPE tandem_trace_spans_dropped_total counter\n"
      "tandem_trace_spans_dropped_total{{where=\"ring\"}} {}\n"
      "tandem_trace_spans_dropped_total{{where=\"file\"}} {}\n"
      "tandem_trace_spans_dropped_total{{where=\"export\"}} {}\n",
      value(all.recorded), value(all.written), value(all.exported), value(all.dropped),
      value(all.not_written), value(all.not_exported));
}

}  // namespace tandem::trace
