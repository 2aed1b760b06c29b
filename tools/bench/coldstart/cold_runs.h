// The runs of the cold start benchmark: each adapter mode over each link, the same requests for
// all.
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
#include "tools/cli/settings.h"

namespace tandem {

struct ColdStartOptions {
  BarSelection only;
  // In the order in which they run; every other round the other way round.
  std::vector<AdapterMode> modes;
  double slow_link_gbps = 10;
  std::int32_t requests = 120;  // Poisson, and about as many of C4
  double rate = 9;              // per second
  LengthDistribution lengths;
  std::int32_t rank = 64;
  std::int32_t bursts = 8;  // of C3
  std::int32_t rounds = 1;  // of everything, with other seeds
  SweepOptions sweep;
};

enum class ColdLink { native, slow };

// What the engine counted while the Poisson requests ran.
struct ColdCounts {
  std::int32_t workers = 0;
  std::uint64_t cpu_layers = 0;  // of cold groups: computed by workers
  std::uint64_t gpu_layers = 0;  // offered to them, but the weights had come
  std::uint64_t timed_out = 0;   // groups that they left without an answer
  std::uint64_t cold_steps = 0;  // that offered anything to workers
  double planned_s = 0;          // what they were to take
  double actual_s = 0;
  double step_s = 0;  // the device at work
  double gap_s = 0;   // at rest, because the engine's thread was at work
};

// What one mode did over one link.
struct ColdRun {
  double start_s = 0;                            // of the engine, with adapters made
  std::vector<AnsweredRequest> poisson;          // C1, C2
  std::vector<AnsweredRequest> bursts;           // C3
  std::vector<double> others_cold, others_warm;  // C4: TPOTs, seconds
  std::vector<double> from_disk;                 // C5: TTFTs, seconds
  std::vector<ExactAnswer> exact;                // C8
  ColdCounts counts;                             // of C1, C2
};

using ColdRuns = std::map<std::pair<ColdLink, AdapterMode>, ColdRun>;

// Runs what `options.only` asks for; the slow link has no cached run: nothing travels there.
Result<ColdRuns> run_cold_starts(const EngineSettings& settings, const ColdStartOptions& options,
                                 ColdAdapters& adapters);

}  // namespace tandem
