// CaraServe's experiments in simulated time; the table is in caraserve.cpp.
#pragma once

#include "tools/bench/papers/experiment.h"

namespace tandem::papers {

Result<Findings> caraserve_overhead(const PapersBench& bench);      // figure 3, left
Result<Findings> caraserve_load_time(const PapersBench& bench);     // figure 3, right
Result<Findings> caraserve_toy(const PapersBench& bench);           // figure 5
Result<Findings> caraserve_synthetic(const PapersBench& bench);     // figure 10
Result<Findings> caraserve_iterations(const PapersBench& bench);    // figure 11
Result<Findings> caraserve_rank(const PapersBench& bench);          // figure 13, top
Result<Findings> caraserve_rate(const PapersBench& bench);          // figure 13, bottom
Result<Findings> caraserve_adapters(const PapersBench& bench);      // figure 14
Result<Findings> caraserve_large_models(const PapersBench& bench);  // figure 15
Result<Findings> caraserve_scheduler(const PapersBench& bench);     // figure 19
Result<Findings> caraserve_testbed(const PapersBench& bench);       // figure 20

}  // namespace tandem::papers
