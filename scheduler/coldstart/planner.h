// Who computes a cold adapter's layers, and in which order its weights travel: from the profile,
// for each cold group and layer of a step, wait, CPU, or CPU for xA with B loaded first. Goes
// beyond the CaraServe paper, which has the CPU compute every layer until the whole adapter has
// arrived.
//
// Pure functions of times: no device, no clock, no thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "scheduler/coldstart/load_piece.h"
#include "scheduler/costs/cost_model.h"

namespace tandem {

enum class LayerChoice : std::uint8_t {
  wait,    // the step waits until the layer's weights are there
  cpu,     // workers compute the delta if they are not
  cpu_xa,  // workers compute x A^T; B is loaded first, and waited for
};

// A cold adapter: where its layers are in time. Times in seconds from now; what is past is 0 or
// less, what is not known is infinite.
struct ColdAdapter {
  std::int32_t rows = 0;          // in the step to be planned
  std::vector<LayerLoad> layers;  // what of it must travel, by layer; cost_model.h
  // When A and B of each layer will be there, if its load has been enqueued already; empty: not.
  std::vector<double> a_arrives, b_arrives;
  // When each layer will be in the host tier, of an adapter that is still being read from disk;
  // empty: all of it is. Neither the link nor a worker can have it earlier: see put_off_unread().
  std::vector<double> host_arrives;
  bool may_hand_over = true;  // to workers; false: its layers are waited for
};

struct PlanRequest {
  std::int32_t rows = 0;          // of the whole step, cold ones included
  double starts_in = 0;           // until the step's first layer
  double link_busy_for = 0;       // with loads enqueued before
  std::int32_t workers = 0;       // cores that would compute; 0: wait is all there is
  double workers_awake_in = 0;    // until all of them are awake; they begin no earlier
  double workers_drowsy_for = 0;  // so long it counts that some slept; of PlanSituation
  // Most rows of all groups that mailboxes have room for. Adapters with few rows come first; those
  // for which nothing is left, or beyond kMaxColdGroups, are waited for.
  std::int32_t max_cpu_rows = 512;
  std::vector<ColdAdapter> adapters;  // all of as many layers
};

struct HandoffPlan {
  // [adapter][layer]
  std::vector<std::vector<LayerChoice>> choices;
  // Of the adapters whose loads were not enqueued: in the order to enqueue them
  // (LoadPiece::adapter: index in PlanRequest::adapters).
  std::vector<LoadPiece> order;
  // Predicted, in seconds from now: when each layer ends, and what the step would take were all
  // adapters resident.
  std::vector<double> layer_ends;
  double resident_ends = 0;
};

// Has the layers of a load that is under way arrive no earlier than the link can bring them once
// they have been read, one after another in the order in which they were to arrive.
void put_off_unread(const CostModel& costs, ColdAdapter& adapter);

// The plan with the earliest predicted end that is found among: wait for all (pipelined), the CPU
// for all, and what a LoadShape (handoff_timeline.h) can say: the CPU below layer k while k .. last
// travel first, B first from layer k to l, some adapters whole before others. Of adapters that
// travel together, layers are interleaved. With the order given, or where loads are on their way
// already, each layer takes what lets it end first. Never later than `wait` for all in layer order.
// Takes 45 us for 8 adapters of 32 layers, 10 to 20 for one: `tandem profile --explain` prints it.
HandoffPlan plan_handoff(const CostModel& costs, const PlanRequest& request);

// The plan that waits for all, in layer order.
HandoffPlan plan_waiting(const CostModel& costs, const PlanRequest& request);

// The plan that has workers compute each layer that is not there by its turn, the weights on their
// way in layer order: the CaraServe paper's mode, but that the device takes over layer by layer.
HandoffPlan plan_assisting(const CostModel& costs, const PlanRequest& request);

// Whether waiting costs so much that anything else is worth a thought. `waiting`: plan_waiting()'s.
bool is_worth_planning(const PlanRequest& request, const HandoffPlan& waiting);

// Whether workers compute anything of it.
bool hands_over(const HandoffPlan& plan);

// Predicted times of given choices and order; what plan_handoff() compares. Fills in layer_ends and
// resident_ends. A layer that is waited for and neither on its way nor in the order never ends.
void predict(const CostModel& costs, const PlanRequest& request, HandoffPlan& plan);

// Layer by layer, for people: who computes it, when its weights arrive, when it ends.
std::string explain(const CostModel& costs, const PlanRequest& request, const HandoffPlan& plan);

}  // namespace tandem
