// What a step that handed rows over says when it has ended: how long each of its layers took, by
// the times that the device noted at the offers.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/handoff/handoff_step.h"
#include "engine/model/spec/model_spec.h"
#include "scheduler/costs/cost_learner.h"
#include "scheduler/costs/cost_model.h"

namespace tandem {

// From the layer's first offer to that of the next layer, in seconds: its stall, all that the
// device does for it, and what the next layer waits for. [layers]; below 0 where it or the next one
// offers nothing.
std::vector<double> seen_layers(const HandoffStep& step);

// Bounds of what the device itself took for all of a step with cold rows, `seconds` long, to
// `learner`. True: step.layer_s, which it was planned with, is beyond one of them, so that it is no
// measure of what workers took.
bool learn_layers(const CostModel& costs, const HandoffStep& step, double seconds,
                  CostLearner& learner);

// What layers that workers computed took beyond step.layer_s, to `learner`; but for those before
// one that may have waited for a load. Of `costs` the figures count alone.
void learn_stalls(const ModelSpec& config, const CostModel& costs, const HandoffStep& step,
                  CostLearner& learner);

// When each layer began, by its first offer: seconds from the step's beginning, for which the first
// offer stands, or what step.layer_s says of the layers before it; below 0: it offered nothing.
std::vector<float> layer_begins(const HandoffStep& step);

// Who had each layer of a group, a letter each: w waited, c CPU workers, x x A^T by CPU workers, g
// the weights had come in time or were waited for, v nobody; ? what is not known.
std::string who_had_layers(const HandoffStep& step, std::size_t group);

// For people, on one line: what was planned and what it took, in milliseconds, in all and of the
// layers between offers, then who had each layer of each group. "c6 x22 w4".
std::string tell(const HandoffStep& step, double seconds);

}  // namespace tandem
