// The planner of cold starts. From profiled costs it chooses for each cold group and layer of a
// step: wait for the weights, CPU, or CPU for x A^T with B loaded first; and the order of the
// loads. In the CaraServe paper the CPU computes every layer until the whole adapter has arrived.
//
// Pure functions of times: no device, no clock, no thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "scheduler/planning/coldstart/load_piece.h"
#include "scheduler/planning/costs/cost_model.h"

namespace tandem {

enum class LayerChoice : std::uint8_t {
  wait,    // the step waits until the layer's weights have arrived
  cpu,     // workers compute the delta unless the weights have arrived
  cpu_xa,  // workers compute x A^T; the step waits for B, which is loaded first
};

// A cold adapter and the arrival times of its layers, in seconds from now. Past times are 0 or
// less, unknown times are infinite.
struct ColdAdapter {
  std::int32_t rows = 0;          // in the step to be planned
  std::vector<LayerLoad> layers;  // weights to load, by layer; cost_model.h
  // Arrival times of A and B of each layer if the load has been enqueued; otherwise empty.
  std::vector<double> a_arrives, b_arrives;
  // Times at which each layer is in the host tier, if the adapter is still being read from disk;
  // otherwise empty. Neither the link nor a worker can use a layer earlier: see put_off_unread().
  std::vector<double> host_arrives;
  bool may_hand_over = true;  // to workers; if false, the step waits for its layers
};

struct PlanRequest {
  std::int32_t rows = 0;              // of the whole step, cold ones included
  double starts_in = 0;               // seconds until the step's first layer
  double link_busy_for = 0;           // seconds, with loads enqueued before
  std::int32_t workers = 0;           // cores that can compute; with 0 every layer waits
  double workers_awake_in = 0;        // until all workers are awake; none begins earlier
  double workers_just_woken_for = 0;  // seconds until PlanSituation counts all as long awake
  // Most rows of all groups together, the room in the mailboxes. Adapters with few rows come first;
  // the step waits for those without room, or beyond kMaxColdGroups.
  std::int32_t max_cpu_rows = 512;
  std::vector<ColdAdapter> adapters;  // all with the same number of layers
};

struct HandoffPlan {
  // [adapter][layer]
  std::vector<std::vector<LayerChoice>> choices;
  // Loads that were not enqueued, in the order to enqueue them (LoadPiece::adapter: index in
  // PlanRequest::adapters).
  std::vector<LoadPiece> order;
  // Predicted ends in seconds from now: of each layer, and of the step if all adapters were
  // resident.
  std::vector<double> layer_ends;
  double resident_ends = 0;
};

// Delays the arrivals of a load under way: the link brings each piece after it has been read from
// disk, one after another in the order of their arrival times.
void put_off_unread(const CostModel& costs, ColdAdapter& adapter);

// Returns the plan with the earliest predicted end of those tried: wait for all (pipelined), the
// CPU for all, and the shapes of LoadShape (handoff_timeline.h): the CPU below layer k while layers
// k to last are loaded first, B first from layer k to l, some adapters whole before others. Layers
// of adapters that are loaded together are interleaved. For a given order, and for loads already on
// their way, each layer makes the choice that ends it first. The end is never later than that of
// `wait` for all in layer order. Takes 45 us for 8 adapters of 32 layers, 10 to 20 for one: `tandem
// profile --explain` prints it.
HandoffPlan plan_handoff(const CostModel& costs, const PlanRequest& request);

// Returns the plan that waits for all layers, loaded in layer order.
HandoffPlan plan_waiting(const CostModel& costs, const PlanRequest& request);

// Returns the plan in which workers compute each layer that has not arrived when it begins, loaded
// in layer order. This is the CaraServe paper's mode, but the device takes over layer by layer.
HandoffPlan plan_assisting(const CostModel& costs, const PlanRequest& request);

// Predicted seconds of the plan's step, from the start of the step.
double step_seconds(const PlanRequest& request, const HandoffPlan& plan);

// Whether waiting costs so much that a search may pay off. `waiting`: from plan_waiting().
bool is_worth_planning(const PlanRequest& request, const HandoffPlan& waiting);

// Whether workers compute any layer of the plan.
bool hands_over(const HandoffPlan& plan);

// Predicts the given choices and order with the times that plan_handoff() compares. Fills in
// layer_ends and resident_ends. A layer never ends if it waits for weights that are neither on
// their way nor in the order.
void predict(const CostModel& costs, const PlanRequest& request, HandoffPlan& plan);

// Returns a text for people, layer by layer: its choices, arrivals, start and end.
std::string explain(const CostModel& costs, const PlanRequest& request, const HandoffPlan& plan);

}  // namespace tandem
