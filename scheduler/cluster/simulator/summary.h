// Statistics of a simulation's samples.
#pragma once

#include <vector>

#include "scheduler/cluster/simulator/simulation.h"

namespace tandem {

// Mean, median and 99th percentile (nearest rank), and at most `points` points of the distribution.
// All zero without samples. Sorts the samples.
Distribution summarise(std::vector<float>& samples, std::size_t points = 200);

}  // namespace tandem
