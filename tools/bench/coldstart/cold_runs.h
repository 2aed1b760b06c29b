// The runs of the cold start benchmark: each adapter mode over each link, with the same requests.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/service/adapter_mode.h"
#include "tools/bench/coldstart/cold_adapters.h"
#include "tools/bench/coldstart/cold_engine.h"
#include "tools/bench/coldstart/cold_sweep.h"
#include "tools/bench/coldstart/exactness.h"
#include "tools/bench/common/bench_selection.h"
#include "tools/bench/measure/bench_trace.h"
#include "tools/settings/engine_settings.h"

namespace tandem {

struct ColdStartOptions {
  BarSelection only;
  // In the order of the runs; every other round reverses it.
  std::vector<AdapterMode> modes;
  double slow_link_gbps = 10;
  std::int32_t requests = 120;  // Poisson requests, and about as many in C4
  double rate = 9;              // per second
  LengthDistribution lengths;
  std::int32_t rank = 64;
  std::int32_t bursts = 8;  // in C3
  std::int32_t rounds = 1;  // repetitions of everything, each with other seeds
  SweepOptions sweep;
};

enum class ColdLink { native, slow };

// The engine's counters during the Poisson requests.
struct ColdCounts {
  std::int32_t workers = 0;
  std::uint64_t cpu_layers = 0;  // layers of cold groups that workers computed
  std::uint64_t gpu_layers = 0;  // layers offered to workers whose weights had arrived by then
  std::uint64_t timed_out = 0;   // groups that workers did not answer in time
  std::uint64_t cold_steps = 0;  // steps that offered anything to workers
  double planned_s = 0;          // predicted time of these steps
  double actual_s = 0;
  double step_s = 0;  // time in which the device worked
  double gap_s = 0;   // time in which the device waited for the engine's thread
};

// The results of one mode over one link.
struct ColdRun {
  double start_s = 0;                    // start time of the engine; adapters existed already
  std::vector<AnsweredRequest> poisson;  // C1, C2
  std::vector<AnsweredRequest> bursts;   // C3
  std::vector<double> others_cold, others_warm;  // C4: TPOTs, seconds
  std::vector<double> from_disk;                 // C5: TTFTs, seconds
  std::vector<ExactAnswer> exact;                // C8
  ColdCounts counts;                             // during C1, C2
};

using ColdRuns = std::map<std::pair<ColdLink, AdapterMode>, ColdRun>;

// Runs the parts selected by `options.only`; the slow link has no cached run, because nothing would
// be copied.
Result<ColdRuns> run_cold_starts(const EngineSettings& settings, const ColdStartOptions& options,
                                 ColdAdapters& adapters);

}  // namespace tandem
