#include "scheduler/planning/costs/cost_learner.h"

#include <algorithm>
#include <cmath>

namespace tandem {
namespace {

// A ratio outside this range is no measurement of a link.
constexpr double kLeastOfLink = 0.02, kMostOfLink = 200;

bool is_of_a_link(double ratio) {
  return ratio >= kLeastOfLink && ratio <= kMostOfLink;
}

}  // namespace

void CostLearner::observe_stall(StallKind kind, double model_s, double seen_s) {
  count(stalls_[static_cast<std::size_t>(kind)].observe_doubting(
      model_s / CostFactors::kShortestStall_s, model_s, seen_s));
}

void CostLearner::observe_layers(std::int32_t rows, double model_s, double seen_s) {
  count(layers_.observe(rows, model_s, seen_s));
}

void CostLearner::bound_layers(std::int32_t rows, double model_s, double seen_s, Bound side) {
  count(layers_.bound(rows, model_s, seen_s, side));
}

void CostLearner::observe_loads(double model_s, double seen_s) {
  const bool counts = model_s > 0 && is_of_a_link(seen_s / model_s);
  if (counts) link_.add(seen_s / model_s);
  count(counts);
}

void CostLearner::be_optimistic() {
  for (FactorTracker& stalls : stalls_) stalls.keep_least();
  take_factors();
}

void CostLearner::count(bool counts) {
  if (!counts) return;
  ++observed_;
  take_factors();
}

void CostLearner::take_factors() {
  for (std::size_t i = 0; i < stalls_.size(); ++i) factors_.stalls[i] = stalls_[i].table();
  factors_.layers = layers_.table();
  if (link_.known() > 0) factors_.link = link_.ranked(link_.known() / 4);
}

CostLessons CostLearner::lessons() const {
  CostLessons lessons;
  for (std::size_t i = 0; i < stalls_.size(); ++i) lessons.stalls[i] = stalls_[i].lessons();
  lessons.layers = layers_.lessons();
  lessons.link = link_.values();
  return lessons;
}

void CostLearner::restore(const CostLessons& lessons) {
  for (std::size_t i = 0; i < stalls_.size(); ++i) stalls_[i].restore(lessons.stalls[i]);
  layers_.restore(lessons.layers);
  for (const double ratio : lessons.link) {
    if (is_of_a_link(ratio)) link_.add(ratio);
  }
  take_factors();
}

}  // namespace tandem
