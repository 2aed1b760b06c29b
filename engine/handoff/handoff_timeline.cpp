#include "engine/handoff/handoff_timeline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/base/check.h"
#include "engine/base/ticket.h"

namespace tandem {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// What nobody knows is never; what is past is past.
double known(double time) {
  return std::isnan(time) ? kNever : time;
}

}  // namespace

HandoffTimeline::HandoffTimeline(const CostModel& costs, const PlanRequest& request)
    : model_(costs),
      request_(request),
      num_adapters_(static_cast<std::int32_t>(request.adapters.size())),
      num_layers_(request.adapters.empty()
                      ? 0
                      : static_cast<std::int32_t>(request.adapters.front().layers.size())),
      layer_s_(costs.layer_time(request.rows) * request.pace),
      starts_in_(std::max(0.0, request.starts_in)) {
  const std::size_t layers = index(num_layers_);
  for (const ColdAdapter& adapter : request.adapters) {
    TANDEM_CHECK(adapter.layers.size() == layers, "{} layers, {} in the first adapter",
                 adapter.layers.size(), layers);
    for (const auto* times : {&adapter.a_arrives, &adapter.b_arrives, &adapter.host_arrives}) {
      TANDEM_CHECK(times->empty() || times->size() == layers, "{} times of {} layers",
                   times->size(), layers);
    }
    TANDEM_CHECK(adapter.a_arrives.size() == adapter.b_arrives.size(), "A without B");
    any_from_disk_ = any_from_disk_ || !adapter.host_arrives.empty();
  }
  choose_who_may();
  add_costs(costs);
  arrivals_.assign(costs_.size(), {kNever, kNever});
  for (std::int32_t i = 0; i < num_adapters_; ++i) {
    const ColdAdapter& adapter = request.adapters[index(i)];
    if (adapter.a_arrives.empty()) {
      to_load_.push_back(i);
      continue;
    }
    for (std::int32_t l = 0; l < num_layers_; ++l) {
      arrival(i, l) = {known(adapter.a_arrives[index(l)]), known(adapter.b_arrives[index(l)])};
    }
  }
  if (num_layers_ > 0) {
    std::stable_sort(to_load_.begin(), to_load_.end(),
                     [&](std::int32_t a, std::int32_t b) { return burden(a) > burden(b); });
  }
}

// Fewest rows first, as far as the mailboxes have room.
void HandoffTimeline::choose_who_may() {
  may_hand_over_.assign(index(num_adapters_), false);
  if (request_.workers <= 0) return;
  std::vector<std::int32_t> order(index(num_adapters_));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return request_.adapters[index(a)].rows < request_.adapters[index(b)].rows;
  });
  std::int64_t room = request_.max_cpu_rows;
  int groups = 0;
  for (const std::int32_t i : order) {
    const ColdAdapter& adapter = request_.adapters[index(i)];
    if (!adapter.may_hand_over || adapter.rows <= 0) continue;
    if (adapter.rows > room || groups == kMaxColdGroups) break;
    room -= adapter.rows;
    ++groups;
    may_hand_over_[index(i)] = true;
  }
}

void HandoffTimeline::add_costs(const CostModel& model) {
  costs_.resize(index(num_layers_ * num_adapters_));
  for (std::int32_t i = 0; i < num_adapters_; ++i) {
    const ColdAdapter& adapter = request_.adapters[index(i)];
    for (std::int32_t l = 0; l < num_layers_; ++l) {
      LayerCost& made = costs_[index(l * num_adapters_ + i)];
      const LayerLoad& load = adapter.layers[index(l)];
      if (l > 0 && load == adapter.layers[index(l - 1)]) {
        made = costs_[index((l - 1) * num_adapters_ + i)];
        continue;
      }
      made.present = load.sites > 0;
      made.load_s = model.load_time(load.a_bytes + load.b_bytes, load.copies);
      made.a_s = model.load_time(load.a_bytes, load.copies);
      made.b_s = model.load_time(load.b_bytes, load.copies);
      if (!may_hand_over_[index(i)]) continue;
      made.whole = model.handover(load, adapter.rows, request_.workers, false);
      made.xa = model.handover(load, adapter.rows, request_.workers, true);
    }
  }
}

double HandoffTimeline::burden(std::int32_t adapter) const {
  const LayerCost& first = cost(adapter, 0);
  if (!may_hand_over_[index(adapter)]) return kNever;
  return (first.whole.workers_s + first.whole.stream_s + first.whole.wire_s) /
         std::max(first.load_s, 1e-12);
}

double HandoffTimeline::host_arrival(std::int32_t adapter, std::int32_t layer) const {
  const std::vector<double>& times = request_.adapters[index(adapter)].host_arrives;
  return times.empty() ? 0 : std::max(0.0, known(times[index(layer)]));
}

template <typename Visit>
void HandoffTimeline::visit(std::span<const LayerRanges> ranges, Visit&& piece) const {
  for (std::int32_t l = 0; l < num_layers_; ++l) {
    for (const std::int32_t i : to_load_) {
      const LayerRanges& range = ranges[index(i)];
      if (l < range.whole_from) continue;
      piece(i, l, l < range.b_first_to ? PieceKind::b : PieceKind::layer);
    }
  }
  for (std::int32_t l = 0; l < num_layers_; ++l) {
    for (const std::int32_t i : to_load_) {
      const LayerRanges& range = ranges[index(i)];
      if (l < range.whole_from) {
        piece(i, l, PieceKind::layer);
      } else if (l < range.b_first_to) {
        piece(i, l, PieceKind::a);
      }
    }
  }
}

void HandoffTimeline::load(std::span<const LayerRanges> ranges) {
  double link = std::max(0.0, request_.link_busy_for);
  visit(ranges, [&](std::int32_t i, std::int32_t l, PieceKind kind) {
    const LayerCost& c = cost(i, l);
    Arrival& there = arrival(i, l);
    if (any_from_disk_) link = std::max(link, host_arrival(i, l));
    if (kind == PieceKind::layer) {
      link += c.load_s;
      there = {link, link};
    } else if (kind == PieceKind::a) {
      link += c.a_s;
      there.a = link;
    } else {
      link += c.b_s;
      there.b = link;
    }
  });
}

void HandoffTimeline::load(std::span<const LoadPiece> order) {
  for (const std::int32_t i : to_load_) {
    for (std::int32_t l = 0; l < num_layers_; ++l) arrival(i, l) = {kNever, kNever};
  }
  double link = std::max(0.0, request_.link_busy_for);
  for (const LoadPiece& piece : order) {
    TANDEM_CHECK(piece.adapter >= 0 && piece.adapter < num_adapters_ && piece.layer >= 0 &&
                     piece.layer < num_layers_,
                 "piece of adapter {}, layer {}", piece.adapter, piece.layer);
    const LayerCost& c = cost(piece.adapter, piece.layer);
    Arrival& there = arrival(piece.adapter, piece.layer);
    link = std::max(link, host_arrival(piece.adapter, piece.layer));
    link += piece.kind == PieceKind::layer ? c.load_s : piece.kind == PieceKind::a ? c.a_s : c.b_s;
    if (piece.kind != PieceKind::b) there.a = link;
    if (piece.kind != PieceKind::a) there.b = link;
  }
}

std::vector<LoadPiece> HandoffTimeline::order_of(std::span<const LayerRanges> ranges) const {
  std::vector<LoadPiece> order;
  order.reserve(to_load_.size() * index(num_layers_) * 2);
  visit(ranges, [&](std::int32_t i, std::int32_t l, PieceKind kind) {
    order.push_back({.adapter = i, .layer = l, .kind = kind});
  });
  return order;
}

double HandoffTimeline::run(const Choices& choices, std::vector<double>& layer_ends) const {
  layer_ends.assign(index(num_layers_), 0);
  double now = starts_in_;
  double stolen = 0;  // from the link, by answers: what has not arrived comes so much later
  for (std::int32_t l = 0; l < num_layers_; ++l) {
    for (std::int32_t i = 0; i < num_adapters_; ++i) {
      if (!cost(i, l).present) continue;
      const Arrival& there = arrival(i, l);
      const LayerChoice choice =
          may_hand_over_[index(i)] ? choices[index(i)][index(l)] : LayerChoice::wait;
      if (choice == LayerChoice::wait) now = std::max(now, std::max(there.a, there.b) + stolen);
      if (choice == LayerChoice::cpu_xa) now = std::max(now, there.b + stolen);
    }
    HandoverWork work;
    std::int32_t offers = 0;
    double late = 0;
    for (std::int32_t i = 0; i < num_adapters_; ++i) {
      const LayerCost& c = cost(i, l);
      if (!c.present || !may_hand_over_[index(i)]) continue;
      const LayerChoice choice = choices[index(i)][index(l)];
      if (choice == LayerChoice::wait) continue;
      const Arrival& there = arrival(i, l);
      offers = std::max(offers, c.whole.sites);
      if (std::max(there.a, there.b) + stolen <= now) continue;
      work.add(choice == LayerChoice::cpu_xa ? c.xa : c.whole);
      if (any_from_disk_) late = std::max(late, host_arrival(i, l) - now);
    }
    work.workers_s += late;
    now +=
        layer_s_ + (work.sites > 0 ? model_.stall(work, request_.rows) : model_.offer_s * offers);
    stolen += work.link_s;
    layer_ends[index(l)] = now;
  }
  return now;
}

double HandoffTimeline::run_greedily(double give_up, Choices* choices) const {
  // A group whose layer is not there when the layer could start, and when its parts come.
  struct Pending {
    std::int32_t adapter;
    double whole, b;
    bool xa;  // B is there by the time looked at
  };
  struct Arriving {
    double time;
    std::size_t pending;
    bool whole;  // else B
  };
  std::vector<Pending> pending;
  std::vector<Arriving> events;
  pending.reserve(index(num_adapters_));
  events.reserve(index(num_adapters_) * 2);

  double now = starts_in_;
  double stolen = 0;
  const auto note = [&](std::int32_t adapter, std::int32_t layer, LayerChoice choice) {
    if (choices != nullptr) (*choices)[index(adapter)][index(layer)] = choice;
  };
  for (std::int32_t l = 0; l < num_layers_ && now < give_up; ++l) {
    pending.clear();
    const double start = now;
    for (std::int32_t i = 0; i < num_adapters_; ++i) {
      const Arrival& there = arrival(i, l);
      const double whole = std::max(there.a, there.b) + stolen;
      if (whole <= start || !cost(i, l).present) {
        note(i, l, LayerChoice::wait);
      } else if (!may_hand_over_[index(i)]) {
        now = std::max(now, whole);
        note(i, l, LayerChoice::wait);
      } else {
        pending.push_back({i, whole, there.b + stolen, false});
      }
    }
    // At `now`: what has come by then is there, of some only B, workers have the rest.
    HandoverWork work;
    std::size_t left = 0;
    double late = 0;
    for (Pending& p : pending) {
      if (p.whole <= now) {
        note(p.adapter, l, LayerChoice::wait);
        continue;
      }
      p.xa = p.b <= now;
      note(p.adapter, l, p.xa ? LayerChoice::cpu_xa : LayerChoice::cpu);
      const LayerCost& c = cost(p.adapter, l);
      work.add(p.xa ? c.xa : c.whole);
      if (any_from_disk_) late = std::max(late, host_arrival(p.adapter, l) - now);
      pending[left++] = p;
    }
    pending.resize(left);
    if (left > 0) {
      work.workers_s += late;
      double best_end = now + model_.stall(work, request_.rows);
      double best_time = now;
      HandoverWork best_work = work;
      // Waiting longer: for whatever arrives before that end.
      events.clear();
      for (std::size_t p = 0; p < left; ++p) {
        if (pending[p].whole < best_end) events.push_back({pending[p].whole, p, true});
        if (!pending[p].xa && pending[p].b < std::min(pending[p].whole, best_end)) {
          events.push_back({pending[p].b, p, false});
        }
      }
      std::sort(events.begin(), events.end(),
                [](const Arriving& a, const Arriving& b) { return a.time < b.time; });
      for (std::size_t e = 0; e < events.size() && events[e].time < best_end; ++e) {
        Pending& p = pending[events[e].pending];
        const LayerCost& c = cost(p.adapter, l);
        const HandoverWork& gone = p.xa ? c.xa : c.whole;
        work.workers_s -= gone.workers_s;
        work.stream_s -= gone.stream_s;
        work.wire_s -= gone.wire_s;
        work.link_s -= gone.link_s;
        if (events[e].whole) {
          --left;
        } else {
          p.xa = true;
          work.add(c.xa);
        }
        const double end =
            events[e].time + (left == 0 ? 0 : std::max(0.0, model_.stall(work, request_.rows)));
        if (end < best_end) {
          best_end = end;
          best_time = events[e].time;
          best_work = left == 0 ? HandoverWork{} : work;
        }
      }
      if (choices != nullptr && best_time > now) {
        for (const Pending& p : pending) {
          note(p.adapter, l,
               p.whole <= best_time ? LayerChoice::wait
               : p.b <= best_time   ? LayerChoice::cpu_xa
                                    : LayerChoice::cpu);
        }
      }
      now = best_end;
      stolen += std::max(0.0, best_work.link_s);
    }
    now += layer_s_;
  }
  return now;
}

}  // namespace tandem
