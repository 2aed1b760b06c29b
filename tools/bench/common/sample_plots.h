// Plots of the distribution of samples, for a page.
#pragma once

#include <vector>

#include "tools/bench/common/bench_report.h"
#include "tools/report/plot.h"

namespace tandem {

// Plots the distribution of each sample set with two or more values. Neighbours with the same unit
// share a plot as long as there are few lines and one axis suits them, so add sets that are to be
// compared one after another.
std::vector<Plot> sample_plots(const std::vector<Samples>& samples);

}  // namespace tandem
