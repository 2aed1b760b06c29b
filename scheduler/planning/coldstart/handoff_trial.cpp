// Predicts the end of a step for one load shape in less than a microsecond: the search tries dozens
// of them between two steps. Nothing is allocated. Pieces arrive in the order of positions, so the
// work left for workers is a suffix sum and needs no loop over adapters. Only layers with adapters
// already on their way, which arrive in any order, are evaluated adapter by adapter.
#include <algorithm>
#include <limits>

#include "scheduler/planning/coldstart/handoff_timeline.h"

namespace tandem {

void HandoffTimeline::reserve_for_trying() {
  now_arriving_.resize(index(num_adapters_));
  pending_.reserve(index(num_adapters_));
  events_.reserve(index(num_adapters_) * 2);
}

namespace {

HandoverWork minus(HandoverWork work, const HandoverWork& gone) {
  work.workers_s -= gone.workers_s;
  work.stream_s -= gone.stream_s;
  work.wire_s -= gone.wire_s;
  work.link_s -= gone.link_s;
  return work;
}

}  // namespace

// Link time at the start of a layer, in the first pass of the loads and in the second, for what the
// shape loads last. Three runs of pieces of a layer arrive, each in the order of positions: the
// leading adapters, B of the others where it is loaded alone, and the rest of the others.
class HandoffTimeline::Passes {
 public:
  Passes(const HandoffTimeline& of, const LoadShape& shape)
      : of_(of),
        lead_(index(std::max(shape.lead, of.least_lead_))),
        end_(index(of.num_to_load_)),
        shape_(shape),
        first_(std::max(0.0, of.request_.link_busy_for)),
        second_(first_) {
    for (std::int32_t l = 0; l < of.num_layers_; ++l) second_ += first_pass(of.row(l), l);
  }

  // Advances both passes past the layer.
  void next(const Row& row, std::int32_t layer) {
    first_ += first_pass(row, layer);
    if (layer < shape_.whole_from) {
      second_ += row.load[end_] - row.load[lead_];
    } else if (layer < shape_.b_first_to) {
      second_ += row.a[end_] - row.a[lead_];
    }
  }

  void arrivals(const Row& row, std::int32_t layer, Arrival* there) const {
    const Rest rest = rest_of(row, layer);
    for (std::size_t p = 0; p < lead_; ++p) {
      const double time = first_ + row.load[p + 1];
      there[p] = {time, time};
    }
    for (std::size_t p = lead_; p < end_; ++p) {
      there[p] = {rest.whole_from + rest.whole[p + 1], rest.b_from + rest.b[p + 1]};
    }
  }

  // Does what take_layer() does, for a layer without other cold adapters, in link time: without the
  // seconds stolen so far.
  void take(const Row& row, std::int32_t layer, double& now, double& stolen) const {
    const Rest rest = rest_of(row, layer);
    double time = now - stolen;
    if (of_.least_lead_ > 0) time = std::max(time, first_ + row.load[index(of_.least_lead_)]);
    std::size_t lead = index(of_.least_lead_);  // leading adapters that have arrived
    std::size_t b = rest.b_alone ? lead_ : end_;
    std::size_t whole = lead_;
    if (first_ + row.load[lead_] <= time) lead = lead_;
    while (lead < lead_ && first_ + row.load[lead + 1] <= time) ++lead;
    while (b < end_ && rest.b_from + rest.b[b + 1] <= time) ++b;
    if (rest.whole_from + rest.whole[end_] <= time) whole = end_;
    while (whole < end_ && rest.whole_from + rest.whole[whole + 1] <= time) ++whole;
    // The work left for workers.
    const auto left = [&] {
      HandoverWork work = row.whole[lead];
      if (lead < lead_) work = minus(work, row.whole[lead_]);
      HandoverWork others = row.whole[whole];
      if (rest.b_alone && whole < b) {
        others = minus(row.xa[whole], row.xa[b]);
        others.add(row.whole[b]);
      }
      if (lead == lead_) return others;
      work.add(others);
      return work;
    };
    HandoverWork work = left();
    const auto all_there = [&] { return work.sites == 0 || (lead == lead_ && whole == end_); };
    if (all_there()) {
      now = time + stolen + of_.layer_s_;
      return;
    }
    const double awake = of_.request_.workers_awake_in - stolen;
    const auto end_of = [&](const HandoverWork& handed) {
      return std::max(time, awake) + of_.model_.stall_in(handed, of_.layer_s_);
    };
    double best_end = end_of(work);
    double best_link_s = work.link_s;
    // Tries to wait longer, until each arrival before the best end.
    while (whole < end_ || lead < lead_) {
      if (lead < lead_) {
        time = first_ + row.load[++lead];
      } else if (b < end_) {
        time = rest.b_from + rest.b[++b];
      } else {
        time = rest.whole_from + rest.whole[++whole];
      }
      if (time >= best_end) break;
      work = left();
      const bool none = all_there();
      const double end = none ? time : end_of(work);
      if (end >= best_end) continue;
      best_end = end;
      best_link_s = none ? 0 : work.link_s;
    }
    now = best_end + stolen + of_.layer_s_;
    stolen += std::max(0.0, best_link_s);
  }

 private:
  // Adapters that do not lead: one arrives at its pass's time plus the sum that includes it.
  struct Rest {
    double whole_from, b_from;
    const double *whole, *b;
    bool b_alone;
  };
  Rest rest_of(const Row& row, std::int32_t layer) const {
    if (layer < shape_.whole_from) {
      const double from = second_ - row.load[lead_];
      return {from, from, row.load, row.load, false};
    }
    if (layer < shape_.b_first_to) {
      return {second_ - row.a[lead_], first_ + row.load[lead_] - row.b[lead_], row.a, row.b, true};
    }
    return {first_, first_, row.load, row.load, false};
  }

  double first_pass(const Row& row, std::int32_t layer) const {
    if (layer < shape_.whole_from) return row.load[lead_];
    if (layer < shape_.b_first_to) return row.load[lead_] + row.b[end_] - row.b[lead_];
    return row.load[end_];
  }

  const HandoffTimeline& of_;
  const std::size_t lead_, end_;
  const LoadShape shape_;
  double first_, second_;
};

double HandoffTimeline::end_of(const LoadShape& shape, double give_up) {
  if (any_from_disk_) {  // the link may wait for the disk, so sums do not hold
    load(order_of(shape));
    return walk(nullptr, give_up, nullptr);
  }
  Passes passes(*this, shape);
  return walk(&passes, give_up, nullptr);
}

HandoffTimeline::Choices HandoffTimeline::choose() {
  Choices choices = all_of(LayerChoice::wait);
  walk(nullptr, std::numeric_limits<double>::infinity(), &choices);
  return choices;
}

double HandoffTimeline::walk(Passes* passes, double give_up, Choices* choices) {
  double now = starts_in_;
  double stolen = 0;
  for (std::int32_t l = 0; l < num_layers_; ++l) {
    if (now + (num_layers_ - l) * layer_s_ >= give_up) return give_up;
    const Row& costs = row(l);
    const Arrival* const known = &arrival(0, l);
    if (passes == nullptr) {
      take_layer(l, {known, index(num_adapters_)}, now, stolen, choices);
      continue;
    }
    if (on_their_way_[index(l)] <= now - stolen) {
      passes->take(costs, l, now, stolen);
    } else {
      passes->arrivals(costs, l, now_arriving_.data());
      std::copy(known + num_to_load_, known + num_adapters_, now_arriving_.begin() + num_to_load_);
      take_layer(l, now_arriving_, now, stolen, nullptr);
    }
    passes->next(costs, l);
  }
  return now;
}

void HandoffTimeline::set_choice(Choices* choices, std::int32_t position, std::int32_t layer,
                                 LayerChoice choice) const {
  if (choices != nullptr) (*choices)[index(adapters_[index(position)])][index(layer)] = choice;
}

// Seconds from `time` until workers are awake and all layers missing at `time` are in host memory.
double HandoffTimeline::not_before(std::int32_t layer, double time) const {
  double latest = std::max(time, request_.workers_awake_in);
  if (!any_from_disk_) return latest - time;
  for (const Pending& p : pending_) {
    if (p.whole > time) latest = std::max(latest, host_arrival(p.position, layer));
  }
  return latest - time;
}

// Chooses the arrival until which the layer waits so that it ends first, given the work then left
// for workers. Often the layer waits for none.
void HandoffTimeline::take_layer(std::int32_t layer, std::span<const Arrival> arrivals, double& now,
                                 double& stolen, Choices* choices) {
  const LayerCost* const costs = row(layer).costs;
  pending_.clear();
  const double start = now;
  for (std::int32_t p = 0; p < num_adapters_; ++p) {
    const Arrival& there = arrivals[index(p)];
    const double whole = there.whole + stolen;
    if (whole <= start || !costs[p].present) continue;
    if (may_[index(p)] == 0) {
      now = std::max(now, whole);
    } else {
      pending_.push_back({p, whole, there.b + stolen, false});
    }
  }
  // The choice at `now`: parts that have arrived are used, for some groups B alone; workers compute
  // the rest.
  HandoverWork work;
  std::size_t left = 0;
  std::size_t left_xa = 0;
  for (Pending& p : pending_) {
    if (p.whole <= now) continue;
    p.xa = p.b <= now;
    if (p.xa) ++left_xa;
    set_choice(choices, p.position, layer, p.xa ? LayerChoice::cpu_xa : LayerChoice::cpu);
    const LayerCost& c = costs[p.position];
    work.add(p.xa ? c.xa : c.whole);
    pending_[left++] = p;
  }
  pending_.resize(left);
  if (left == 0) {
    now += layer_s_;
    return;
  }
  double best_end = now + not_before(layer, now) + model_.stall_in(work, layer_s_);
  double best_time = now;
  double best_link_s = work.link_s;
  events_.clear();
  const auto expect = [&](double time, std::size_t which, bool whole) {
    events_.push_back({time, which, whole});
    // Insertion sort, as events come nearly in order.
    for (std::size_t e = events_.size() - 1; e > 0 && events_[e - 1].time > time; --e) {
      std::swap(events_[e - 1], events_[e]);
    }
  };
  for (std::size_t p = 0; p < left; ++p) {
    const Pending& of = pending_[p];
    if (of.whole < best_end) expect(of.whole, p, true);
    if (!of.xa && of.b < std::min(of.whole, best_end)) expect(of.b, p, false);
  }
  for (std::size_t e = 0; e < events_.size() && events_[e].time < best_end; ++e) {
    Pending& p = pending_[events_[e].pending];
    const LayerCost& c = costs[p.position];
    work = minus(work, p.xa ? c.xa : c.whole);
    if (events_[e].whole) {
      --left;
      if (p.xa && --left_xa == 0) work.extra_s = 0;
    } else {
      p.xa = true;
      ++left_xa;
      work.add(c.xa);
    }
    const double end =
        events_[e].time + (left == 0 ? 0
                                     : not_before(layer, events_[e].time) +
                                           std::max(0.0, model_.stall_in(work, layer_s_)));
    if (end < best_end) {
      best_end = end;
      best_time = events_[e].time;
      best_link_s = left == 0 ? 0 : work.link_s;
    }
  }
  if (choices != nullptr && best_time > now) {
    for (const Pending& p : pending_) {
      set_choice(choices, p.position, layer,
                 p.whole <= best_time ? LayerChoice::wait
                 : p.b <= best_time   ? LayerChoice::cpu_xa
                                      : LayerChoice::cpu);
    }
  }
  now = best_end + layer_s_;
  stolen += std::max(0.0, best_link_s);
}

}  // namespace tandem
