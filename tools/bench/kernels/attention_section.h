// The attention section of `tandem bench kernels`: decode steps and prompts over the paged cache.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "tools/bench/common/bench_report.h"
#include "tools/bench/kernels/gpu_bench.h"

namespace tandem::kernels {

struct AttentionSection {
  std::string only;  // part of the names of the cases to run; empty: all cases
  std::int64_t replays = 50;
};

// Checks each case against the simple kernel, prints a table of times and adds their samples.
Status run_attention_section(GpuBench& gpu, const AttentionSection& section, BenchReport& report);

}  // namespace tandem::kernels
