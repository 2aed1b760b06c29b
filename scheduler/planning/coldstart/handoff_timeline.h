// The timeline of a plan: predicts a step layer by layer from the arrival times of its cold
// adapters. Costs are computed once; then many choices and load orders are tried. For planner.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/planning/coldstart/planner.h"
#include "scheduler/planning/costs/cost_model.h"

namespace tandem {

// The order in which layers are loaded, those of several adapters interleaved. The first `lead`
// adapters of HandoffTimeline::to_load() are loaded whole, from layer 0. Of the others, layers
// below `whole_from` are loaded last; layers from there to below `b_first_to` are loaded as B
// alone, their A after the last layer; the remaining layers are loaded whole, in order.
struct LoadShape {
  std::int32_t lead = 0;
  std::int32_t whole_from = 0;
  std::int32_t b_first_to = 0;  // no layer is B first unless above whole_from

  bool operator==(const LoadShape&) const = default;
};

// Used by one thread: trials share buffers.
class HandoffTimeline {
 public:
  // `costs` and `request` must outlive the timeline.
  HandoffTimeline(const CostModel& costs, const PlanRequest& request);

  std::int32_t num_layers() const { return num_layers_; }
  std::int32_t num_adapters() const { return num_adapters_; }
  double resident_ends() const { return starts_in_ + num_layers_ * layer_s_; }
  // Adapters whose loads have not been enqueued: first those that must be waited for, then the
  // others by worker time per link time, highest first.
  std::span<const std::int32_t> to_load() const {
    return std::span(adapters_).first(index(num_to_load_));
  }
  // Number of adapters of to_load() that must be waited for. They lead in every shape.
  std::int32_t least_lead() const { return least_lead_; }
  bool any_from_disk() const { return any_from_disk_; }
  bool may_hand_over(std::int32_t adapter) const { return may_hand_over_[index(adapter)]; }

  std::vector<LoadPiece> order_of(const LoadShape& shape) const;
  // Computes the arrivals of all parts in this order, for trials without a shape.
  void load(std::span<const LoadPiece> order);

  using Choices = std::vector<std::vector<LayerChoice>>;  // [adapter][layer]
  Choices all_of(LayerChoice choice) const;
  // Returns the end of the step under the given choices; fills in `layer_ends`. Needs load().
  double run(const Choices& choices, std::vector<double>& layer_ends) const;
  // Returns the end of the step if each layer makes the choice that ends it first. Needs no load().
  // A result of `give_up` or more is not exact.
  double end_of(const LoadShape& shape, double give_up);
  // Returns the choices that end_of() would make, with the arrivals of load().
  Choices choose();

 private:
  // One layer of one adapter. Positions: the adapters of to_load(), then those on their way.
  struct LayerCost {
    HandoverWork whole, xa;
    double load_s = 0, a_s = 0, b_s = 0;
    bool present = false;  // any module is adapted

    double seconds(PieceKind kind) const {  // on the link
      return kind == PieceKind::layer ? load_s : kind == PieceKind::a ? a_s : b_s;
    }
  };
  // Layers with equal loads share a row of costs.
  struct Row {
    const LayerCost* costs;          // [position]
    const double *load, *a, *b;      // [to_load() + 1]: link seconds of the positions before
    const HandoverWork *whole, *xa;  // [to_load() + 1]: work of the positions from there on
  };
  struct Arrival {
    double whole, b;
  };
  class Passes;  // the arrivals of a shape
  // A group whose weights are missing when the layer could start, and their arrival times.
  struct Pending {
    std::int32_t position;
    double whole, b;
    bool xa;  // B has arrived by the time under trial
  };
  struct Arriving {
    double time;
    std::size_t pending;
    bool whole;  // else B alone
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
  // Implements end_of() and choose(). Without `passes` it uses the arrivals of load().
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
  std::vector<double> on_their_way_;  // [layer]: last arrival of adapters on their way
  // Buffers for the layer under trial.
  std::vector<Arrival> now_arriving_;  // [position]
  std::vector<Pending> pending_;
  std::vector<Arriving> events_;
};

}  // namespace tandem
