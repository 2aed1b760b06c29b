#include "scheduler/coldstart/admission.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace tandem {
namespace {

// What of the adapter the link still has to bring, were it enqueued now.
double load_time(const CostModel& costs, const ColdAdapter& adapter) {
  if (!adapter.a_arrives.empty()) return 0;
  double seconds = 0;
  for (const LayerLoad& layer : adapter.layers) {
    if (layer.sites > 0) seconds += costs.load_time(layer.a_bytes + layer.b_bytes, layer.copies);
  }
  return seconds;
}

// A later step sees as past what comes before it: times count from now all the same.
AdmissionPlan in_turns_of(std::size_t size, const CostModel& costs, const PlanRequest& request,
                          const PlanSteps& plan, double give_up) {
  AdmissionPlan made;
  const std::size_t count = request.adapters.size();
  PlanRequest step = request;
  for (const ColdAdapter& adapter : request.adapters) step.rows -= adapter.rows;
  double total = 0;
  for (std::size_t first = 0; first < count && total < give_up; first += size) {
    const std::size_t last = std::min(count, first + size);
    step.adapters.assign(request.adapters.begin() + static_cast<std::ptrdiff_t>(first),
                         request.adapters.begin() + static_cast<std::ptrdiff_t>(last));
    std::int32_t rows = 0;
    for (const ColdAdapter& adapter : step.adapters) rows += adapter.rows;
    step.rows += rows;
    HandoffPlan planned = plan(costs, step);
    for (LoadPiece& piece : planned.order) {
      piece.adapter += static_cast<std::int32_t>(first);
      made.order.push_back(piece);
    }
    const double end = planned.layer_ends.empty() ? step.starts_in : planned.layer_ends.back();
    for (std::size_t i = first; i < last; ++i) {
      step.link_busy_for += load_time(costs, request.adapters[i]);
      made.turns.push_back(static_cast<std::int32_t>(first / size));
      made.ends.push_back(end);
      total += end;
    }
    // They go on with a row each.
    step.rows += static_cast<std::int32_t>(last - first) - rows;
    step.starts_in = end;
  }
  return made;
}

double sum(const AdmissionPlan& plan) {
  return std::accumulate(plan.ends.begin(), plan.ends.end(), 0.0);
}

}  // namespace

AdmissionPlan plan_admission(const CostModel& costs, const PlanRequest& request,
                             const PlanSteps& plan) {
  const std::size_t count = request.adapters.size();
  if (count == 0) return {};
  AdmissionPlan best =
      in_turns_of(count, costs, request, plan, std::numeric_limits<double>::infinity());
  for (std::size_t size = count; size > 1;) {
    size = (size + 1) / 2;
    const double best_sum = sum(best);
    AdmissionPlan made = in_turns_of(size, costs, request, plan, best_sum);
    if (made.turns.size() == count && sum(made) < best_sum) best = std::move(made);
  }
  return best;
}

}  // namespace tandem
