// The measurements of an ended step that handed rows over: how long each of its layers took, from
// the times that the device recorded at the offers.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/handoff/handoff_step.h"
#include "engine/model/spec/model_spec.h"
#include "scheduler/planning/costs/cost_learner.h"
#include "scheduler/planning/costs/cost_model.h"

namespace tandem {

// Seconds from each layer's first offer to the next layer's: the layer's stall, its work on the
// device, and the next layer's waits. [layers]; below 0 where the layer or the next one has no
// offer.
std::vector<double> seen_layers(const HandoffStep& step);

// Gives `learner` bounds of the device's own time for a step with cold rows that took `seconds`.
// Returns true if step.layer_s, with which the step was planned, lies outside these bounds: the
// workers' time cannot be measured against it then.
bool learn_layers(const CostModel& costs, const HandoffStep& step, double seconds,
                  CostLearner& learner);

// Gives `learner` the time beyond step.layer_s of each layer that workers computed, except layers
// whose successor may have waited for a load. Only the figures of `costs` are used, not its
// factors.
void learn_stalls(const ModelSpec& config, const CostModel& costs, const HandoffStep& step,
                  CostLearner& learner);

// When each layer began, by its first offer, in seconds from the step's start; below 0: the layer
// has no offer. The start is taken to be step.layer_s per layer before the first offer.
std::vector<float> layer_begins(const HandoffStep& step);

// One letter for each layer of a group: w waited for, c computed by CPU workers, x x A^T by CPU
// workers, g the weights had arrived in time or were waited for, v computed by nobody, ? unknown.
std::string who_had_layers(const HandoffStep& step, std::size_t group);

// One line for the log: planned and measured milliseconds of the whole step and of the layers
// between offers, then the letters of each group's layers with their counts, like "c6 x22 w4".
std::string describe_step(const HandoffStep& step, double seconds);

}  // namespace tandem
