// How samples are distributed, as plots for a page.
#pragma once

#include <vector>

#include "tools/bench/common/bench_report.h"
#include "tools/report/plot.h"

namespace tandem {

// A distribution of each that has two values or more. Neighbours of one unit share a plot while its
// lines can be told apart and one axis suits them: what is to be compared is added one after
// another.
std::vector<Plot> sample_plots(const std::vector<Samples>& samples);

}  // namespace tandem
