// The clock of a plan: walks a step layer by layer, with what of its cold adapters has arrived by
// then. Costs are worked out once; then many choices and orders are tried on them. For planner.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/handoff/cost_model.h"
#include "engine/handoff/planner.h"

namespace tandem {

// How an adapter's layers are to travel: those below `whole_from` last; B alone of those from
// there to `b_first_to`, their A after the last layer; the others whole, in order.
struct LayerRanges {
  std::int32_t whole_from = 0;
  std::int32_t b_first_to = 0;  // none when not above whole_from
};

class HandoffTimeline {
 public:
  HandoffTimeline(const CostModel& costs, const PlanRequest& request);

  std::int32_t num_layers() const { return num_layers_; }
  std::int32_t num_adapters() const { return num_adapters_; }
  double resident_ends() const { return starts_in_ + num_layers_ * layer_s_; }
  bool any_to_load() const { return !to_load_.empty(); }
  // Adapters whose loads have not been enqueued, those that a worker helps least first.
  std::span<const std::int32_t> to_load() const { return to_load_; }
  // Of the work that this adapter costs workers, over what it costs the link.
  double burden(std::int32_t adapter) const;
  bool may_hand_over(std::int32_t adapter) const { return may_hand_over_[index(adapter)]; }

  // When each part arrives, in the order that `ranges` (one for each adapter) mean, or as listed.
  void load(std::span<const LayerRanges> ranges);
  void load(std::span<const LoadPiece> order);
  std::vector<LoadPiece> order_of(std::span<const LayerRanges> ranges) const;

  using Choices = std::vector<std::vector<LayerChoice>>;
  // The end of the step under given choices; fills in `layer_ends`.
  double run(const Choices& choices, std::vector<double>& layer_ends) const;
  // The end when each layer takes what lets it end first. `give_up`: stops, with what it has, when
  // it is past that. Fills in `choices` unless null.
  double run_greedily(double give_up, Choices* choices) const;

 private:
  struct LayerCost {
    HandoverWork whole, xa;
    double load_s = 0, a_s = 0, b_s = 0;
    bool present = false;  // has any module
  };
  struct Arrival {
    double a, b;
  };
  static std::size_t index(std::int32_t value) { return static_cast<std::size_t>(value); }
  const LayerCost& cost(std::int32_t adapter, std::int32_t layer) const {
    return costs_[index(layer * num_adapters_ + adapter)];
  }
  Arrival& arrival(std::int32_t adapter, std::int32_t layer) {
    return arrivals_[index(layer * num_adapters_ + adapter)];
  }
  const Arrival& arrival(std::int32_t adapter, std::int32_t layer) const {
    return arrivals_[index(layer * num_adapters_ + adapter)];
  }
  double host_arrival(std::int32_t adapter, std::int32_t layer) const;
  void add_costs(const CostModel& model);
  void choose_who_may();
  template <typename Visit>
  void visit(std::span<const LayerRanges> ranges, Visit&& piece) const;

  const CostModel& model_;
  const PlanRequest& request_;
  std::int32_t num_adapters_ = 0;
  std::int32_t num_layers_ = 0;
  double layer_s_ = 0;
  double starts_in_ = 0;
  bool any_from_disk_ = false;
  std::vector<LayerCost> costs_;     // [layer][adapter]
  std::vector<Arrival> arrivals_;    // [layer][adapter]
  std::vector<bool> may_hand_over_;  // [adapter]
  std::vector<std::int32_t> to_load_;
};

}  // namespace tandem
