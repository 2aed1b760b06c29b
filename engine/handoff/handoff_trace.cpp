#include "engine/handoff/handoff_trace.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/ids/ticket.h"
#include "base/trace/tracer.h"

namespace tandem {
namespace {

using Ns = std::chrono::nanoseconds;

std::int64_t ns_of(TimePoint at) {
  return std::chrono::duration_cast<Ns>(at.time_since_epoch()).count();
}

// The nanoseconds to add to the device's times.
std::int64_t correction(std::uint64_t first, std::uint64_t last, TimePoint launched,
                        TimePoint seen) {
  const std::int64_t least = ns_of(launched) - static_cast<std::int64_t>(first);
  const std::int64_t most = ns_of(seen) - static_cast<std::int64_t>(last);
  return std::clamp<std::int64_t>(0, std::min(least, most), most);
}

// A layer with offers: the time of the first, and the groups that workers computed.
struct OfferedLayer {
  std::size_t layer;
  std::uint64_t at;
  std::vector<bool> by_workers;  // [groups]
};

std::vector<OfferedLayer> offered_layers(const HandoffStep& step) {
  const std::size_t groups = step.groups.size();
  std::vector<OfferedLayer> offered;
  for (std::size_t l = 0; l < step.layers.size(); ++l) {
    std::optional<OfferedLayer> of;
    for (std::size_t s = 0; s < step.layers[l].sites.size(); ++s) {
      if (!step.layers[l].sites[s].offered()) continue;
      const std::size_t place = offer_at(step.num_sites, l, s);
      if (!of) of = {l, step.times[place], std::vector<bool>(groups, false)};
      for (std::size_t g = 0; g < groups; ++g) {
        const Ticket ticket = step.ticket(place, g);
        if (ticket == Ticket::cpu || ticket == Ticket::cpu_xa) of->by_workers[g] = true;
      }
    }
    if (of) offered.push_back(std::move(*of));
  }
  return offered;
}

// Records one span for all groups of a mailbox, as its workers take them one after another.
void draw(const HandoffStep& step, const OfferedLayer& of, TimePoint begin, TimePoint end) {
  std::uint64_t drawn = 0;  // mailboxes
  for (std::size_t g = 0; g < step.groups.size(); ++g) {
    const std::int32_t mailbox = step.groups[g].job.mailbox;
    const std::uint64_t bit = std::uint64_t{1} << mailbox;
    if (!of.by_workers[g] || (drawn & bit) != 0) continue;
    drawn |= bit;
    double adapters = 0;
    double rows = 0;
    for (std::size_t other = g; other < step.groups.size(); ++other) {
      const GroupOfStep& job = step.groups[other].job;
      if (!of.by_workers[other] || job.mailbox != mailbox) continue;
      ++adapters;
      rows += job.rows;
    }
    Span span = device_span("layer by CPU workers", SpanTrack::workers, begin, end);
    span.lane = static_cast<std::uint16_t>(mailbox);
    trace::record(span.add("layer", static_cast<double>(of.layer))
                      .add("adapters", adapters)
                      .add("rows", rows));
  }
}

}  // namespace

std::vector<WorkerTime> trace_workers(const HandoffStep& step, TimePoint launched, TimePoint seen) {
  std::vector<WorkerTime> times(step.groups.size());
  const std::vector<OfferedLayer> offered = offered_layers(step);
  if (offered.empty()) return times;
  const std::int64_t add = correction(offered.front().at, offered.back().at, launched, seen);
  const auto on_host = [&](std::uint64_t device_ns) {
    return TimePoint(
        std::chrono::duration_cast<Duration>(Ns(static_cast<std::int64_t>(device_ns) + add)));
  };
  for (std::size_t i = 0; i < offered.size(); ++i) {
    const TimePoint begin = on_host(offered[i].at);
    const TimePoint end = i + 1 < offered.size() ? on_host(offered[i + 1].at) : seen;
    draw(step, offered[i], begin, end);
    for (std::size_t g = 0; g < times.size(); ++g) {
      if (!offered[i].by_workers[g]) continue;
      if (times[g].begin == TimePoint{}) times[g].begin = begin;
      times[g].end = end;
    }
  }
  return times;
}

}  // namespace tandem
