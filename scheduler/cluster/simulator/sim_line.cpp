#include "scheduler/cluster/simulator/sim_line.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace tandem {

SimLine::SimLine(const SimLineOptions& options)
    : options_(options),
      order_({.adapter_clusters = options.adapter_clusters,
              .max_passed_over = options.newest_first ? std::numeric_limits<std::uint32_t>::max()
                                                      : QueueChoices().max_passed_over}) {}

void SimLine::add(const SimRequest& request, bool cold) {
  SimWaiting& one = list_.emplace_back(SimWaiting{.request = request, .cold = cold, .entry = {}});
  one.entry.arrival = ++arrivals_;
  one.entry.adapter = adapter_number(request);
  one.entry.prompt_tokens = request.prompt_tokens;
  one.entry.has_deadline = options_.ttft_deadline_s > 0 || options_.newest_first;
  ranks_.add(request.rank);
  load_.requests += 1;
  load_.tokens += request.prompt_tokens;
  load_.rank_tokens += std::int64_t{request.prompt_tokens} * request.rank;
  abort_.came();
}

void SimLine::arrange(std::span<const std::uint64_t> in_batch) {
  const bool overloaded =
      options_.newest_first || (options_.ttft_deadline_s > 0 && abort_.is_overloaded());
  if (order_.is_plain(overloaded)) {
    if (!std::exchange(has_turns_, false)) return;
    std::ranges::sort(list_, {}, [](const SimWaiting& one) { return one.entry.arrival; });
    return;
  }
  entries_.clear();
  for (SimWaiting& one : list_) entries_.push_back(&one.entry);
  std::deque<SimWaiting> arranged;
  for (const std::uint32_t place : order_.arrange(entries_, in_batch, overloaded)) {
    arranged.push_back(list_[place]);
  }
  list_.swap(arranged);
  has_turns_ = true;
}

SimWaiting SimLine::admit(std::size_t place) {
  const SimWaiting one = list_[place];
  list_.erase(list_.begin() + static_cast<std::ptrdiff_t>(place));
  if (has_turns_) {
    for (SimWaiting& other : list_) QueueOrder::count_passed_over(one.entry, other.entry);
  }
  forget(one.request);
  abort_.was_admitted();
  return one;
}

const std::vector<SimWaiting>& SimLine::give_up_late(double now_s, bool idle) {
  abort_.tick(now_s);
  late_.clear();
  if (options_.ttft_deadline_s <= 0) return late_;
  std::erase_if(list_, [&](const SimWaiting& one) {
    if (abort_.lateness(now_s - one.request.arrival_s, options_.ttft_deadline_s,
                        one.request.prompt_tokens, idle) == EarlyAbort::Lateness::in_time) {
      return false;
    }
    late_.push_back(one);
    return true;
  });
  for (const SimWaiting& one : late_) forget(one.request);
  return late_;
}

PrefillLoad SimLine::load() const {
  PrefillLoad load = load_;
  load.rank_max = ranks_.max();
  return load;
}

void SimLine::forget(const SimRequest& request) {
  ranks_.remove(request.rank);
  load_.requests -= 1;
  load_.tokens -= request.prompt_tokens;
  load_.rank_tokens -= std::int64_t{request.prompt_tokens} * request.rank;
}

}  // namespace tandem
