#include "scheduler/planning/coldstart/handoff_timeline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "base/ids/ticket.h"

namespace tandem {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// An unknown time (NaN) counts as never.
double known(double time) {
  return std::isnan(time) ? kNever : time;
}

// Worker seconds of an adapter's layer per second of link time.
double burden(const HandoverWork& work, double load_s) {
  return (work.workers_s + work.stream_s + work.wire_s) / std::max(load_s, 1e-12);
}

}  // namespace

HandoffTimeline::HandoffTimeline(const CostModel& costs, const PlanRequest& request)
    : model_(costs),
      request_(request),
      num_adapters_(static_cast<std::int32_t>(request.adapters.size())),
      num_layers_(request.adapters.empty()
                      ? 0
                      : static_cast<std::int32_t>(request.adapters.front().layers.size())),
      layer_s_(costs.layer_time(request.rows)),
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
  put_in_order();
  add_costs();
  add_sums();
  add_known_arrivals();
  reserve_for_trying();
}

// Adapters with the fewest rows come first, as long as the mailboxes have room.
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

void HandoffTimeline::put_in_order() {
  std::vector<double> burdens(index(num_adapters_), kNever);
  for (std::int32_t i = 0; i < num_adapters_; ++i) {
    const ColdAdapter& adapter = request_.adapters[index(i)];
    if (adapter.a_arrives.empty()) adapters_.push_back(i);
    if (num_layers_ == 0 || !may_hand_over_[index(i)]) continue;
    const LayerLoad& first = adapter.layers.front();
    burdens[index(i)] = burden(model_.handover(first, adapter.rows, request_.workers, false),
                               model_.load_time(first.a_bytes + first.b_bytes, first.copies));
  }
  num_to_load_ = static_cast<std::int32_t>(adapters_.size());
  std::stable_sort(adapters_.begin(), adapters_.end(), [&](std::int32_t a, std::int32_t b) {
    return burdens[index(a)] > burdens[index(b)];
  });
  for (std::int32_t i = 0; i < num_adapters_; ++i) {
    if (!request_.adapters[index(i)].a_arrives.empty()) adapters_.push_back(i);
  }
  for (const std::int32_t i : adapters_) may_.push_back(may_hand_over_[index(i)] ? 1 : 0);
  while (least_lead_ < num_to_load_ && may_[index(least_lead_)] == 0) ++least_lead_;
}

// Consecutive layers are mostly equal and share a row, which keeps the table small.
void HandoffTimeline::add_costs() {
  const auto alike = [&](std::size_t l, std::size_t m) {
    return std::all_of(
        request_.adapters.begin(), request_.adapters.end(),
        [&](const ColdAdapter& adapter) { return adapter.layers[l] == adapter.layers[m]; });
  };
  std::int32_t rows = 0;
  row_of_.resize(index(num_layers_));
  for (std::int32_t l = 0; l < num_layers_; ++l) {
    if (l > 0 && alike(index(l), index(l - 1))) {
      row_of_[index(l)] = rows - 1;
      continue;
    }
    row_of_[index(l)] = rows++;
    for (std::int32_t p = 0; p < num_adapters_; ++p) {
      const ColdAdapter& adapter = request_.adapters[index(adapters_[index(p)])];
      const LayerLoad& load = adapter.layers[index(l)];
      LayerCost& made = costs_.emplace_back();
      made.present = load.sites > 0;
      made.load_s = model_.load_time(load.a_bytes + load.b_bytes, load.copies);
      made.a_s = model_.load_time(load.a_bytes, load.copies);
      made.b_s = model_.load_time(load.b_bytes, load.copies);
      if (may_[index(p)] == 0) continue;
      made.whole = model_.handover(load, adapter.rows, request_.workers, false);
      made.xa = model_.handover(load, adapter.rows, request_.workers, true);
    }
  }
}

void HandoffTimeline::add_sums() {
  const std::size_t rows = num_adapters_ == 0 ? 0 : costs_.size() / index(num_adapters_);
  const std::size_t width = index(num_to_load_) + 1;
  sums_.assign(rows * 3 * width, 0);
  works_.assign(rows * 2 * width, {});
  rows_.reserve(rows);
  for (std::size_t r = 0; r < rows; ++r) {
    const LayerCost* const costs = costs_.data() + r * index(num_adapters_);
    double* const sums = sums_.data() + r * 3 * width;
    HandoverWork* const works = works_.data() + r * 2 * width;
    rows_.push_back({costs, sums, sums + width, sums + 2 * width, works, works + width});
    for (std::size_t p = 0; p + 1 < width; ++p) {
      sums[p + 1] = sums[p] + costs[p].load_s;
      sums[width + p + 1] = sums[width + p] + costs[p].a_s;
      sums[2 * width + p + 1] = sums[2 * width + p] + costs[p].b_s;
    }
    for (std::size_t p = width - 1; p-- > 0;) {
      works[p] = works[p + 1];
      works[width + p] = works[width + p + 1];
      if (!costs[p].present) continue;
      works[p].add(costs[p].whole);
      works[width + p].add(costs[p].xa);
    }
  }
}

void HandoffTimeline::add_known_arrivals() {
  arrivals_.assign(index(num_layers_ * num_adapters_), {kNever, kNever});
  on_their_way_.assign(index(num_layers_), -kNever);
  for (std::int32_t p = num_to_load_; p < num_adapters_; ++p) {
    const ColdAdapter& adapter = request_.adapters[index(adapters_[index(p)])];
    for (std::int32_t l = 0; l < num_layers_; ++l) {
      const double b = known(adapter.b_arrives[index(l)]);
      const Arrival there{std::max(known(adapter.a_arrives[index(l)]), b), b};
      arrival(p, l) = there;
      if (row(l).costs[p].present) {
        on_their_way_[index(l)] = std::max(on_their_way_[index(l)], there.whole);
      }
    }
  }
}

double HandoffTimeline::host_arrival(std::int32_t position, std::int32_t layer) const {
  const std::vector<double>& times =
      request_.adapters[index(adapters_[index(position)])].host_arrives;
  return times.empty() ? 0 : std::max(0.0, known(times[index(layer)]));
}

std::vector<LoadPiece> HandoffTimeline::order_of(const LoadShape& shape) const {
  std::vector<LoadPiece> order;
  order.reserve(index(num_to_load_ * num_layers_ * 2));
  const std::int32_t lead = std::max(shape.lead, least_lead_);
  for (std::int32_t l = 0; l < num_layers_; ++l) {
    for (std::int32_t p = 0; p < num_to_load_; ++p) {
      if (p >= lead && l < shape.whole_from) break;
      const bool b_alone = p >= lead && l < shape.b_first_to;
      order.push_back({adapters_[index(p)], l, b_alone ? PieceKind::b : PieceKind::layer});
    }
  }
  const std::int32_t last_end = std::max(shape.whole_from, shape.b_first_to);
  for (std::int32_t l = 0; l < last_end; ++l) {
    for (std::int32_t p = lead; p < num_to_load_; ++p) {
      order.push_back(
          {adapters_[index(p)], l, l < shape.whole_from ? PieceKind::layer : PieceKind::a});
    }
  }
  if (any_from_disk_) put_off_what_is_still_read(order);
  return order;
}

// Reorders the pieces so that the link does not wait for a layer that is still being read from disk
// while another adapter's layer is in host memory.
void HandoffTimeline::put_off_what_is_still_read(std::vector<LoadPiece>& order) const {
  const std::vector<std::int32_t> position = positions();
  std::vector<std::vector<std::size_t>> queues(index(num_to_load_));  // [position], reversed
  for (std::size_t i = order.size(); i-- > 0;) {
    queues[index(position[index(order[i].adapter)])].push_back(i);
  }
  const auto host_time = [&](const LoadPiece& piece) {
    return host_arrival(position[index(piece.adapter)], piece.layer);
  };
  double link = std::max(0.0, request_.link_busy_for);
  std::vector<LoadPiece> sorted;
  sorted.reserve(order.size());
  while (sorted.size() < order.size()) {
    std::vector<std::size_t>* next = nullptr;
    for (auto& queue : queues) {
      if (queue.empty()) continue;
      const auto rank = [&](std::size_t i) {
        return std::pair(std::max(link, host_time(order[i])), i);
      };
      if (next == nullptr || rank(queue.back()) < rank(next->back())) next = &queue;
    }
    const LoadPiece& piece = order[next->back()];
    next->pop_back();
    const LayerCost& c = row(piece.layer).costs[position[index(piece.adapter)]];
    link = std::max(link, host_time(piece)) + c.seconds(piece.kind);
    sorted.push_back(piece);
  }
  order = std::move(sorted);
}

std::vector<std::int32_t> HandoffTimeline::positions() const {
  std::vector<std::int32_t> position(index(num_adapters_));
  for (std::int32_t p = 0; p < num_adapters_; ++p) position[index(adapters_[index(p)])] = p;
  return position;
}

void HandoffTimeline::load(std::span<const LoadPiece> order) {
  const std::vector<std::int32_t> position = positions();
  std::vector<double> a(index(num_layers_ * num_adapters_), kNever);
  for (std::int32_t l = 0; l < num_layers_; ++l) {
    for (std::int32_t p = 0; p < num_to_load_; ++p) arrival(p, l) = {kNever, kNever};
  }
  double link = std::max(0.0, request_.link_busy_for);
  for (const LoadPiece& piece : order) {
    TANDEM_CHECK(piece.adapter >= 0 && piece.adapter < num_adapters_ && piece.layer >= 0 &&
                     piece.layer < num_layers_,
                 "piece of adapter {}, layer {}", piece.adapter, piece.layer);
    const std::int32_t p = position[index(piece.adapter)];
    const LayerCost& c = row(piece.layer).costs[p];
    if (any_from_disk_) link = std::max(link, host_arrival(p, piece.layer));
    link += c.seconds(piece.kind);
    Arrival& there = arrival(p, piece.layer);
    double& a_there = a[index(piece.layer * num_adapters_ + p)];
    if (piece.kind != PieceKind::b) a_there = link;
    if (piece.kind != PieceKind::a) there.b = link;
    there.whole = std::max(a_there, there.b);
  }
}

HandoffTimeline::Choices HandoffTimeline::all_of(LayerChoice choice) const {
  Choices choices;
  choices.reserve(index(num_adapters_));
  for (std::int32_t i = 0; i < num_adapters_; ++i) {
    choices.emplace_back(index(num_layers_), may_hand_over(i) ? choice : LayerChoice::wait);
  }
  return choices;
}

double HandoffTimeline::run(const Choices& choices, std::vector<double>& layer_ends) const {
  layer_ends.assign(index(num_layers_), 0);
  double now = starts_in_;
  double stolen = 0;  // link seconds taken by answers; they delay all later arrivals
  const auto choice_of = [&](std::int32_t p, std::int32_t l) {
    return may_[index(p)] != 0 ? choices[index(adapters_[index(p)])][index(l)] : LayerChoice::wait;
  };
  for (std::int32_t l = 0; l < num_layers_; ++l) {
    const LayerCost* const costs = row(l).costs;
    for (std::int32_t p = 0; p < num_adapters_; ++p) {
      if (!costs[p].present) continue;
      const Arrival& there = arrival(p, l);
      const LayerChoice choice = choice_of(p, l);
      if (choice == LayerChoice::wait) now = std::max(now, there.whole + stolen);
      if (choice == LayerChoice::cpu_xa) now = std::max(now, there.b + stolen);
    }
    HandoverWork work;
    std::int32_t offers = 0;
    // Workers begin when they are awake and their groups' weights are in host memory.
    double late = std::max(0.0, request_.workers_awake_in - now);
    for (std::int32_t p = 0; p < num_adapters_; ++p) {
      const LayerCost& c = costs[p];
      const LayerChoice choice = choice_of(p, l);
      if (!c.present || choice == LayerChoice::wait) continue;
      offers = std::max(offers, c.whole.sites);
      if (arrival(p, l).whole + stolen <= now) continue;
      work.add(choice == LayerChoice::cpu_xa ? c.xa : c.whole);
      if (any_from_disk_) late = std::max(late, host_arrival(p, l) - now);
    }
    now += layer_s_ +
           (work.sites > 0 ? late + model_.stall_in(work, layer_s_) : model_.offer_s * offers);
    stolen += work.link_s;
    layer_ends[index(l)] = now;
  }
  return now;
}

}  // namespace tandem
