// The packed section of `tandem bench kernels`: products of decode steps and prompts by packed
// weights.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "tools/bench/common/bench_report.h"
#include "tools/bench/kernels/gpu_bench.h"

namespace tandem::kernels {

struct PackedSection {
  std::string only;  // part of the names of the cases to run; empty: all cases
  std::int64_t replays = 50;
};

// Prints a table of times and the share of copy speed of the bytes that each form needs, and adds
// the samples. Does nothing if `only` selects no case.
Status run_packed_section(GpuBench& gpu, const PackedSection& section, BenchReport& report);

}  // namespace tandem::kernels
