#include "scheduler/planning/coldstart/admission.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

namespace tandem {
namespace {

// Fills in the arrival times of the pieces in `order` on a link that is free from `link` on.
// Returns the time of the last arrival.
double arrive(const CostModel& costs, std::span<const LoadPiece> order, double link,
              std::vector<ColdAdapter>& adapters) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  for (ColdAdapter& adapter : adapters) {
    if (!adapter.a_arrives.empty()) continue;
    adapter.a_arrives.assign(adapter.layers.size(), kNever);
    adapter.b_arrives.assign(adapter.layers.size(), kNever);
  }
  for (const LoadPiece& piece : order) {
    ColdAdapter& adapter = adapters[static_cast<std::size_t>(piece.adapter)];
    const auto l = static_cast<std::size_t>(piece.layer);
    const LayerLoad& layer = adapter.layers[l];
    if (!adapter.host_arrives.empty()) link = std::max(link, adapter.host_arrives[l]);
    const std::int64_t bytes = (piece.kind == PieceKind::b ? 0 : layer.a_bytes) +
                               (piece.kind == PieceKind::a ? 0 : layer.b_bytes);
    if (layer.sites > 0) link += costs.load_time(bytes, layer.copies);
    if (piece.kind != PieceKind::b) adapter.a_arrives[l] = link;
    if (piece.kind != PieceKind::a) adapter.b_arrives[l] = link;
  }
  return link;
}

// Whether any weights of the adapter arrive after `time`.
bool is_cold_at(const ColdAdapter& adapter, double time) {
  const auto late = [&](double arrival) { return !(arrival <= time); };
  return std::ranges::any_of(adapter.a_arrives, late) ||
         std::ranges::any_of(adapter.b_arrives, late);
}

// Plans one step for each group of `size` adapters; stops when the sum of ends reaches `give_up`.
// All times count from now, also in later steps. Adapters of earlier groups take part in later
// steps with one row each, cold until their loads have arrived.
AdmissionPlan in_turns_of(std::size_t size, const CostModel& costs, const PlanRequest& request,
                          const PlanSteps& plan, double give_up) {
  AdmissionPlan made;
  const std::size_t count = request.adapters.size();
  PlanRequest step = request;
  step.adapters.clear();
  std::vector<std::int32_t> in_step;  // [step.adapters]: their indices in the request
  for (const ColdAdapter& adapter : request.adapters) step.rows -= adapter.rows;
  double total = 0;
  for (std::size_t first = 0; first < count && total < give_up; first += size) {
    const std::size_t last = std::min(count, first + size);
    std::int32_t rows = 0;
    for (std::size_t i = first; i < last; ++i) {
      in_step.push_back(static_cast<std::int32_t>(i));
      step.adapters.push_back(request.adapters[i]);
      rows += request.adapters[i].rows;
    }
    step.rows += rows;
    const StepChoice planned = plan(costs, step);
    const double end = planned.ends;
    const bool hands = hands_over(planned.plan);
    if (first == 0) {
      made.hands_over = hands;
      // Waiting costs enough to wake workers, and such plans were not measured to be slower.
      made.may_hand_over = !hands && request.workers_awake_in > 0 && planned.is_worth_planning &&
                           !planned.chosen.given_up;
    }
    for (LoadPiece piece : planned.plan.order) {
      piece.adapter = in_step[static_cast<std::size_t>(piece.adapter)];
      made.order.push_back(piece);
    }
    for (std::size_t i = first; i < last; ++i) {
      made.turns.push_back(static_cast<std::int32_t>(first / size));
      made.ends.push_back(end);
      total += end;
    }
    step.link_busy_for =
        arrive(costs, planned.plan.order, std::max(0.0, step.link_busy_for), step.adapters);
    AdmissionPlan::Step chosen{{}, planned.chosen};
    std::size_t kept = 0;
    for (std::size_t i = 0; i < in_step.size(); ++i) {
      if (is_cold_at(step.adapters[i], step.starts_in)) chosen.adapters.push_back(in_step[i]);
      if (!is_cold_at(step.adapters[i], end)) continue;
      step.adapters[i].rows = 1;
      in_step[kept] = in_step[i];
      std::swap(step.adapters[kept++], step.adapters[i]);
    }
    in_step.resize(kept);
    step.adapters.resize(kept);
    if (hands || request.workers_awake_in <= 0) made.steps.push_back(std::move(chosen));
    step.rows += static_cast<std::int32_t>(last - first) - rows;
    step.starts_in = end;
  }
  return made;
}

}  // namespace

double AdmissionPlan::sum_of_ends() const {
  return std::accumulate(ends.begin(), ends.end(), 0.0);
}

StepChoice plan_as_predicted(const CostModel& costs, const PlanRequest& request) {
  return plan_as_chosen(costs, request, {.way = PlanWay::plan});
}

AdmissionPlan plan_admission(const CostModel& costs, const PlanRequest& request,
                             const PlanSteps& plan) {
  // The least gain of more steps over fewer: other requests wait for these steps, too, and the
  // prediction errors of the steps add up.
  constexpr double kLeastGain = 0.05;
  const std::size_t count = request.adapters.size();
  if (count == 0) return {};
  AdmissionPlan best =
      in_turns_of(count, costs, request, plan, std::numeric_limits<double>::infinity());
  for (std::size_t size = count; size > 1;) {
    size = (size + 1) / 2;
    const double most = (1 - kLeastGain) * best.sum_of_ends();
    AdmissionPlan made = in_turns_of(size, costs, request, plan, most);
    if (made.turns.size() == count && made.sum_of_ends() < most) best = std::move(made);
  }
  return best;
}

}  // namespace tandem
