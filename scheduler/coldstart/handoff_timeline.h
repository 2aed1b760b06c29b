// The clock of a plan: walks a step layer by layer, with what of its cold adapters has arrived by
// then. Costs are worked out once; then many choices and orders are tried on them. For planner.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/coldstart/planner.h"
#include "scheduler/costs/cost_model.h"

namespace tandem {

// How the adapters' layers are to travel, those of several interleaved. The first `lead` of
// HandoffTimeline::to_load() go whole, from layer 0. Of the others the layers below `whole_from` go
// last; B alone of those from there to `b_first_to`, their A after the last layer; the rest whole,
// in order.
struct LoadShape {
  std::int32_t lead = 0;
  std::int32_t whole_from = 0;
  std::int32_t b_first_to = 0;  // none when not above whole_from

  bool operator==(const LoadShape&) const = default;
};

// One thread: trying needs memory of its own.
class HandoffTimeline {
 public:
  // Both outlive it.
  HandoffTimeline(const CostModel& costs, const PlanRequest& request);

  std::int32_t num_layers() const { return num_layers_; }
  std::int32_t num_adapters() const { return num_adapters_; }
  double resident_ends() const { return starts_in_ + num_layers_ * layer_s_; }
  // Adapters whose loads have not been enqueued: first those that must be waited for, then those
  // that cost workers most for what they cost the link.
  std::span<const std::int32_t> to_load() const {
    return std::span(adapters_).first(index(num_to_load_));
  }
  // Of to_load(): those that must be waited for. They lead in every shape.
  std::int32_t least_lead() const { return least_lead_; }
  bool any_from_disk() const { return any_from_disk_; }
  bool may_hand_over(std::int32_t adapter) const { return may_hand_over_[index(adapter)]; }

  std::vector<LoadPiece> order_of(const LoadShape& shape) const;
  // When each part arrives in this order; for what is tried without a shape.
  void load(std::span<const LoadPiece> order);

  using Choices = std::vector<std::vector<LayerChoice>>;  // [adapter][layer]
  Choices all_of(LayerChoice choice) const;
  // After load(): the end of the step under given choices; fills in `layer_ends`.
  double run(const Choices& choices, std::vector<double>& layer_ends) const;
  // The end when each layer takes what lets it end first, without load(). Not below `give_up`:
  // whatever it is.
  double end_of(const LoadShape& shape, double give_up);
  // After load(): the same choices.
  Choices choose();

 private:
  // Of one layer of one adapter. Positions: to_load(), then those on their way.
  struct LayerCost {
    HandoverWork whole, xa;
    double load_s = 0, a_s = 0, b_s = 0;
    bool present = false;  // has any module

    double seconds(PieceKind kind) const {  // on the link
      return kind == PieceKind::layer ? load_s : kind == PieceKind::a ? a_s : b_s;
    }
  };
  // Layers that are alike share a row of costs.
  struct Row {
    const LayerCost* costs;          // [position]
    const double *load, *a, *b;      // [to_load() + 1]: seconds on the link of those before
    const HandoverWork *whole, *xa;  // [to_load() + 1]: of those from there on
  };
  struct Arrival {
    double whole, b;
  };
  class Passes;  // what a shape means for the link
  // A group whose layer is not there when the layer could start, and when its parts come.
  struct Pending {
    std::int32_t position;
    double whole, b;
    bool xa;  // B is there by the time looked at
  };
  struct Arriving {
    double time;
    std::size_t pending;
    bool whole;  // else B
  };

  static std::size_t index(std::int32_t value) { return static_cast<std::size_t>(value); }
  Arrival& arrival(std::int32_t position, std::int32_t layer) {
    return arrivals_[index(layer * num_adapters_ + position)];
  }
  const Arrival& arrival(std::int32_t position, std::int32_t layer) const {
    return arrivals_[index(layer * num_adapters_ + position)];
  }
  const Row& row(std::int32_t layer) const { return rows_[index(row_of_[index(layer)])]; }
  double host_arrival(std::int32_t position, std::int32_t layer) const;
  double not_before(std::int32_t layer, double time) const;
  void put_off_what_is_still_read(std::vector<LoadPiece>& order) const;
  std::vector<std::int32_t> positions() const;  // [adapter]
  void choose_who_may();
  void put_in_order();
  void add_costs();
  void add_sums();
  void add_known_arrivals();
  void reserve_for_trying();
  void set_choice(Choices* choices, std::int32_t position, std::int32_t layer,
                  LayerChoice choice) const;
  // What end_of() and choose() do; `passes` null: with the arrivals of load().
  double walk(Passes* passes, double give_up, Choices* choices);
  void take_layer(std::int32_t layer, std::span<const Arrival> arrivals, double& now,
                  double& stolen, Choices* choices);

  const CostModel& model_;
  const PlanRequest& request_;
  std::int32_t num_adapters_ = 0;
  std::int32_t num_layers_ = 0;
  std::int32_t num_to_load_ = 0;
  std::int32_t least_lead_ = 0;
  double layer_s_ = 0;
  double starts_in_ = 0;
  bool any_from_disk_ = false;
  std::vector<bool> may_hand_over_;     // [adapter]
  std::vector<std::int32_t> adapters_;  // [position]
  std::vector<std::uint8_t> may_;       // [position]: may_hand_over()
  std::vector<std::int32_t> row_of_;    // [layer]
  std::vector<LayerCost> costs_;        // [row][position]
  std::vector<double> sums_;            // [row][load, a, b][to_load() + 1]
  std::vector<HandoverWork> works_;     // [row][whole, xa][to_load() + 1]
  std::vector<Row> rows_;
  std::vector<Arrival> arrivals_;     // [layer][position]
  std::vector<double> on_their_way_;  // [layer]: when the last of those that are has come
  // Of the layer that is being tried.
  std::vector<Arrival> now_arriving_;  // [position]
  std::vector<Pending> pending_;
  std::vector<Arriving> events_;
};

}  // namespace tandem
