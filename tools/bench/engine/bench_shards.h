// tandem bench engine --tensor-parallel N: T1 to T7 of docs/benchmarks.md. N devices that share a
// model alternate with one device that holds all of it.
#pragma once

#include <string>

#include "base/status.h"
#include "tools/bench/common/bench_report.h"
#include "tools/settings/engine_settings.h"

namespace tandem {

struct ShardBenchOptions {
  std::string only;  // "T1,T4"; empty: all
  std::int64_t rounds = 50;
  std::int64_t context = 512;
};

// Returns the process's exit status. On host devices every case runs, but only T7, which does not
// depend on speed, is judged.
Result<int> bench_shards(const EngineSettings& settings, const ShardBenchOptions& options,
                         const ReportSettings& report, const std::string& command);

}  // namespace tandem
