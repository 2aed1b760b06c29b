#include "scheduler/planning/queue/queue_order.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

namespace tandem {

const std::vector<std::uint32_t>& QueueOrder::arrange(std::span<QueueEntry* const> waiting,
                                                      std::span<const std::uint64_t> in_batch,
                                                      bool overloaded) {
  places_.resize(waiting.size());
  std::iota(places_.begin(), places_.end(), 0U);
  const auto rank = [&](const QueueEntry& entry) {
    return std::tuple(choices_.by_priority ? entry.priority : 0, !entry.begun);
  };
  std::sort(places_.begin(), places_.end(), [&](std::uint32_t a, std::uint32_t b) {
    const auto key = [&](const QueueEntry& entry) {
      return std::tuple_cat(rank(entry), std::tuple(entry.arrival));
    };
    return key(*waiting[a]) < key(*waiting[b]);
  });
  adapters_.clear();
  adapters_.insert(in_batch.begin(), in_batch.end());
  for (std::size_t begin = 0; begin < places_.size();) {
    const QueueEntry& first = *waiting[places_[begin]];
    std::size_t end = begin;
    while (end < places_.size() && rank(*waiting[places_[end]]) == rank(first)) ++end;
    if (choices_.fair && !first.begun) take_turns(waiting, begin, end);
    for (std::size_t i = begin; i < end; ++i) {
      waiting[places_[i]]->due = static_cast<std::uint32_t>(i);
    }
    // Requests that may be overtaken form ranges between those that may not.
    std::size_t from = begin;
    for (std::size_t i = begin; i < end; ++i) {
      const QueueEntry& entry = *waiting[places_[i]];
      if (!entry.begun && entry.passed_over < choices_.max_passed_over) continue;
      let_pass(waiting, from, i, overloaded);
      adapters_.insert(entry.adapter);
      from = i + 1;
    }
    let_pass(waiting, from, end, overloaded);
    begin = end;
  }
  return places_;
}

// Requests with deadlines lose most by waiting: under overload they go before those without, the
// newest first.
void QueueOrder::let_pass(std::span<QueueEntry* const> waiting, std::size_t begin, std::size_t end,
                          bool overloaded) {
  std::size_t middle = begin;
  if (overloaded) {
    const auto at = std::stable_partition(
        place(begin), place(end), [&](std::uint32_t each) { return waiting[each]->has_deadline; });
    middle = static_cast<std::size_t>(at - places_.begin());
    std::sort(place(begin), at, [&](std::uint32_t a, std::uint32_t b) {
      return waiting[a]->arrival > waiting[b]->arrival;
    });
    if (choices_.fair) take_turns(waiting, begin, middle);
  }
  if (choices_.adapter_clusters <= 0) return;
  cluster(waiting, begin, middle);
  cluster(waiting, middle, end);
}

// Requests come first whose adapters are in the batch or are brought in by requests before them;
// once there are d adapters, the other requests go behind.
void QueueOrder::cluster(std::span<QueueEntry* const> waiting, std::size_t begin, std::size_t end) {
  adapters_.erase(0);  // the base model costs nothing
  std::stable_partition(place(begin), place(end), [&](std::uint32_t each) {
    const std::uint64_t adapter = waiting[each]->adapter;
    if (adapter == 0 || adapters_.contains(adapter)) return true;
    if (adapters_.size() >= static_cast<std::size_t>(choices_.adapter_clusters)) return false;
    adapters_.insert(adapter);
    return true;
  });
}

// The tenant with the least service goes first, and the prompts placed here count at once, so that
// a tenant with many requests does not get all of them in before the next tenant's first.
void QueueOrder::take_turns(std::span<QueueEntry* const> waiting, std::size_t begin,
                            std::size_t end) {
  struct Line {
    std::vector<std::uint32_t> places;  // in their order
    std::size_t next = 0;
    double service = 0;
  };
  std::map<const FairShare::Tenant*, Line> lines;
  std::vector<Line*> found;  // by first request, so that ties do not depend on addresses
  for (std::size_t i = begin; i < end; ++i) {
    const FairShare::Tenant* tenant = waiting[places_[i]]->tenant;
    const auto [line, fresh] = lines.try_emplace(tenant);
    if (fresh) {
      line->second.service = tenant == nullptr ? 0 : tenant->service;
      found.push_back(&line->second);
    }
    line->second.places.push_back(places_[i]);
  }
  using Next = std::tuple<double, std::size_t>;  // service, line
  std::priority_queue<Next, std::vector<Next>, std::greater<>> turns;
  for (std::size_t i = 0; i < found.size(); ++i) turns.emplace(found[i]->service, i);
  for (std::size_t i = begin; i < end; ++i) {
    const std::size_t index = std::get<1>(turns.top());
    turns.pop();
    Line& line = *found[index];
    places_[i] = line.places[line.next++];
    line.service +=
        FairShare::kPromptToken * static_cast<double>(waiting[places_[i]]->prompt_tokens);
    if (line.next < line.places.size()) turns.emplace(line.service, index);
  }
}

}  // namespace tandem
