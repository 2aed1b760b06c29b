// tandem bench engine on a GPU: G1 to G5, G9 to G11, link and S1 of docs/benchmarks.md.
#pragma once

#include <string>

#include "base/status.h"
#include "tools/bench/common/bench_report.h"
#include "tools/settings/engine_settings.h"

namespace tandem {

struct GpuEngineBench {
  std::string only;  // "G1,link"; empty: all
  std::int64_t rounds = 50;
  std::int64_t context = 512;
  double started_s = 0;  // seconds from the start of the command to the call
};

// Returns the process's exit status.
Result<int> bench_engine_on_gpu(const EngineSettings& settings, const GpuEngineBench& bench,
                                const ReportSettings& report, const std::string& command);

}  // namespace tandem
