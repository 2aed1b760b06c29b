// The GEMM section of `tandem bench kernels`: the matrix products of decode steps.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "tools/bench/common/bench_report.h"
#include "tools/bench/kernels/gpu_bench.h"

namespace tandem::kernels {

struct GemmSection {
  std::string only;  // part of the names of the cases to run; empty: all cases
  std::int64_t replays = 50;
};

// Prints a table of our kernels' and cuBLASLt's times, and adds the samples of the one that is
// chosen. Does nothing if `only` selects no case.
Status run_gemm_section(GpuBench& gpu, const GemmSection& section, BenchReport& report);

}  // namespace tandem::kernels
