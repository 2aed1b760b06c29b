// Traces of loads (docs/tracing.md).
#include "engine/adapters/device/loads_in_flight.h"

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "base/trace/tracer.h"

namespace tandem {
namespace {

constexpr int kLanes = 16;  // lanes that loads are drawn on

}  // namespace

// As in StepPipeline, spans have the device's durations, and end when the host saw the end.
void trace_load(const AdapterLoad& load, const ServedAdapter& adapter, SlotId slot) noexcept {
  if (load.begins == nullptr) return;
  const TimePoint now = SteadyClock().now();
  const Duration took = duration_of(load.whole->seconds_since(*load.begins));
  const TimePoint begin = std::max(load.begun_at, now - took);
  const auto lane = static_cast<std::uint16_t>(slot.value() % kLanes);
  const auto draw = [&](Span span) {
    span.lane = lane;
    trace::record(span);
  };
  draw(device_span("load", SpanTrack::loads, begin, now)
           .add("adapter", adapter.name())
           .add("bytes", static_cast<double>(adapter.contents().num_bytes)));
  std::vector<std::pair<double, std::size_t>> passed;  // in the order of the link
  try {
    for (std::size_t l = 0; l < load.layers.size(); ++l) {
      if (load.layers[l] != nullptr)
        passed.emplace_back(load.layers[l]->seconds_since(*load.begins), l);
    }
  } catch (const std::bad_alloc&) {  // a trace without pieces
    return;
  }
  std::sort(passed.begin(), passed.end());
  double from = 0;
  for (const auto& [until, layer] : passed) {
    draw(device_span("layer", SpanTrack::loads, begin + duration_of(from),
                     std::min(begin + duration_of(until), now))
             .add("layer", static_cast<double>(layer)));
    from = until;
  }
}

}  // namespace tandem
