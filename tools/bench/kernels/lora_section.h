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
  std::string peers;  // file of the peers' figures
  std::string only;   // cases whose name contains it; empty: all
  std::int64_t replays = 50;
};

// Checks and times every case, prints the tables to standard output, adds bars, samples and facts.
// Nothing to do when `only` leaves no case. `progress` is told how many cases of how many are done.
Status run_lora_section(GpuBench& gpu, const LoraSection& section, BenchReport& report,
                        const std::function<void(std::size_t, std::size_t)>& progress);

}  // namespace tandem::kernels
