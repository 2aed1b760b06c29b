#include "engine/handoff/planner.h"

#include <algorithm>
#include <limits>

#include "engine/handoff/handoff_timeline.h"

namespace tandem {
namespace {

// Tries ranges, one after another, and keeps the best. Prefers waiting to handing over when both
// end together, as the first tried is the plain load.
class RangeSearch {
 public:
  RangeSearch(HandoffTimeline& timeline, double best_end)
      : timeline_(timeline),
        ranges_(static_cast<std::size_t>(timeline.num_adapters())),
        best_end_(best_end) {}

  LayerRanges best() const { return best_; }
  std::int32_t best_lead() const { return best_lead_; }
  double best_end() const { return best_end_; }
  bool found() const { return found_; }

  // The same ranges for all but the first `lead` of to_load(), which travel whole from layer 0.
  bool attempt(LayerRanges ranges, std::int32_t lead) {
    const std::int32_t layers = timeline_.num_layers();
    ranges.whole_from = std::clamp(ranges.whole_from, 0, layers);
    ranges.b_first_to = std::clamp(ranges.b_first_to, 0, layers);
    timeline_.load(all(ranges, lead));
    const double end = timeline_.run_greedily(best_end_, nullptr);
    if (end >= best_end_) return false;
    best_ = ranges;
    best_lead_ = lead;
    best_end_ = end;
    found_ = true;
    return true;
  }

  std::span<const LayerRanges> all(LayerRanges ranges, std::int32_t lead) {
    const std::span<const std::int32_t> order = timeline_.to_load();
    for (std::size_t i = 0; i < order.size(); ++i) {
      const bool leads = static_cast<std::int32_t>(i) < lead || !timeline_.may_hand_over(order[i]);
      ranges_[static_cast<std::size_t>(order[i])] = leads ? LayerRanges{} : ranges;
    }
    return ranges_;
  }

  // Looks around the best in steps that halve, down to single layers.
  void refine(std::int32_t step) {
    for (; step >= 1; step /= 2) {
      const LayerRanges at = best_;
      const bool b_first = at.b_first_to > at.whole_from;
      for (const std::int32_t by : {-step, step}) {
        attempt({at.whole_from + by, b_first ? at.b_first_to : 0}, best_lead_);
        if (b_first) attempt({at.whole_from, at.b_first_to + by}, best_lead_);
      }
    }
  }

 private:
  HandoffTimeline& timeline_;
  std::vector<LayerRanges> ranges_;
  LayerRanges best_;
  std::int32_t best_lead_ = 0;
  double best_end_;
  bool found_ = false;
};

void search(RangeSearch& tried, const HandoffTimeline& timeline) {
  const std::int32_t layers = timeline.num_layers();
  // Coarse for many pairs of adapters and layers: the search runs between two steps.
  const bool large = timeline.num_adapters() * layers > 320;
  const std::int32_t step = std::max(1, large ? layers / 4 : layers / 8);
  tried.attempt({}, 0);
  for (std::int32_t k = step; k < layers; k += step) tried.attempt({k, 0}, 0);
  tried.attempt({layers, 0}, 0);
  const std::int32_t whole_from = tried.best().whole_from;
  for (std::int32_t l = 2 * step; l < layers + step; l += 2 * step) {
    tried.attempt({0, l}, 0);
    if (whole_from > 0 && l > whole_from / 2) tried.attempt({whole_from / 2, l}, 0);
  }
  const std::span<const std::int32_t> order = timeline.to_load();
  const auto count = static_cast<std::int32_t>(order.size());
  if (count > 1 && timeline.burden(order.front()) > 1.2 * timeline.burden(order.back())) {
    const std::int32_t stride = std::max(1, count / 4);
    for (std::int32_t lead = stride; lead < count; lead += stride) {
      tried.attempt(tried.best(), lead);
      tried.attempt({layers, 0}, lead);
    }
  }
  tried.refine(step / 2);
}

HandoffTimeline::Choices all_of(const HandoffTimeline& timeline, LayerChoice choice) {
  HandoffTimeline::Choices choices;
  for (std::int32_t i = 0; i < timeline.num_adapters(); ++i) {
    choices.emplace_back(static_cast<std::size_t>(timeline.num_layers()),
                         timeline.may_hand_over(i) ? choice : LayerChoice::wait);
  }
  return choices;
}

}  // namespace

HandoffPlan plan_handoff(const CostModel& costs, const PlanRequest& request) {
  HandoffTimeline timeline(costs, request);
  HandoffPlan plan;
  plan.resident_ends = timeline.resident_ends();
  if (timeline.num_adapters() == 0) return plan;

  const std::vector<LayerRanges> plain(static_cast<std::size_t>(timeline.num_adapters()));
  plan.order = timeline.order_of(plain);
  plan.choices = all_of(timeline, LayerChoice::wait);
  timeline.load(plain);
  double best_end = timeline.run(plan.choices, plan.layer_ends);
  if (request.workers <= 0) return plan;

  const auto keep_if_better = [&](HandoffTimeline::Choices choices, auto&& order) {
    std::vector<double> ends;
    const double end = timeline.run(choices, ends);
    if (end >= best_end) return;
    best_end = end;
    plan.choices = std::move(choices);
    plan.layer_ends = std::move(ends);
    plan.order = order();
  };
  keep_if_better(all_of(timeline, LayerChoice::cpu), [&] { return timeline.order_of(plain); });

  RangeSearch tried(timeline, best_end);
  if (timeline.any_to_load()) {
    search(tried, timeline);
  } else {
    tried.attempt({}, 0);
  }
  if (!tried.found()) return plan;
  const std::span<const LayerRanges> ranges = tried.all(tried.best(), tried.best_lead());
  timeline.load(ranges);
  HandoffTimeline::Choices choices = all_of(timeline, LayerChoice::wait);
  timeline.run_greedily(std::numeric_limits<double>::infinity(), &choices);
  keep_if_better(std::move(choices), [&] { return timeline.order_of(ranges); });
  return plan;
}

void predict(const CostModel& costs, const PlanRequest& request, HandoffPlan& plan) {
  HandoffTimeline timeline(costs, request);
  timeline.load(std::span<const LoadPiece>(plan.order));
  timeline.run(plan.choices, plan.layer_ends);
  plan.resident_ends = timeline.resident_ends();
}

}  // namespace tandem
