// The LoRA section of `tandem bench kernels`: G6, G7 and G8 of docs/benchmarks.md.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "tools/bench/common/bench_report.h"
#include "tools/bench/kernels/gpu_bench.h"

namespace tandem::kernels {

struct LoraSection {
  std::string peers;  // path of the peers' figures
  std::string only;   // part of the names of the cases to run; empty: all cases
  std::int64_t replays = 50;
};

// Checks and times every case, prints tables to standard output, adds bars, samples and facts. Does
// nothing if `only` selects no case. Calls progress(cases done, all cases) meanwhile.
Status run_lora_section(GpuBench& gpu, const LoraSection& section, BenchReport& report,
                        const std::function<void(std::size_t, std::size_t)>& progress);

}  // namespace tandem::kernels
