// S-LoRA's experiments in simulated time and by counting; the table is in s_lora.cpp.
#pragma once

#include "tools/bench/papers/experiment.h"

namespace tandem::papers {

Result<Findings> s_lora_adapters(const PapersBench& bench);        // figure 5
Result<Findings> s_lora_rates(const PapersBench& bench);           // figure 6
Result<Findings> s_lora_real_trace(const PapersBench& bench);      // figure 7
Result<Findings> s_lora_shards(const PapersBench& bench);          // figure 8
Result<Findings> s_lora_merging(const PapersBench& bench);         // figure 9
Result<Findings> s_lora_early_abort(const PapersBench& bench);     // figure 10
Result<Findings> s_lora_clusters_alpha(const PapersBench& bench);  // figure 11
Result<Findings> s_lora_clusters_cv(const PapersBench& bench);     // figure 12

}  // namespace tandem::papers
