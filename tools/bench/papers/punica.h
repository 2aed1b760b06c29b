// Punica's experiments in simulated time and by counting; the table is in punica.cpp.
#pragma once

#include "tools/bench/papers/experiment.h"

namespace tandem::papers {

Result<Findings> punica_cluster(const PapersBench& bench);    // figure 13
Result<Findings> punica_migration(const PapersBench& bench);  // section 5.3, figure 5

}  // namespace tandem::papers
