// The sweep of the cold start benchmark: bursts of several sizes over links of several speeds, from
// host memory and from disk. In each cell the modes alternate, with an engine each, so that drift
// of the machine affects all modes alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/service/adapter_mode.h"
#include "tools/bench/coldstart/cold_adapters.h"
#include "tools/settings/engine_settings.h"

namespace tandem {

// Adapters requested at once, each with one prompt.
struct ColdBurst {
  std::int32_t adapters = 0;
  std::int32_t tokens = 0;  // per prompt
  std::int32_t rank = 0;

  std::string name() const;  // "8 x 64 tokens, rank 64"
};

struct SweepOptions {
  std::vector<double> links_gbps = {0, 10};  // 0: the native speed
  std::vector<std::int64_t> adapters = {1, 8};
  std::vector<std::int64_t> tokens = {8, 64, 256};
  std::vector<std::int64_t> ranks = {64};
  std::vector<std::string> tiers = {"host"};  // also "disk", in the page cache
  std::int32_t rounds = 3;                    // per cell, after one round that is not counted
};

struct SweepCell {
  double link_gbps = 0;  // 0: the native speed
  bool on_disk = false;
  ColdBurst burst;
  std::vector<std::vector<double>> ttfts;  // [mode of the sweep], in seconds, over all rounds
  // Mean TTFT if every adapter were served as soon as the link has delivered it, one after another:
  // a lower bound for modes that wait for weights. 0: there is no resident run to compute it from.
  double link_floor_s = 0;
  // Layers per burst for which workers computed anything, in mode `planned`. If it is 0, planned
  // behaved like `pipelined`.
  double planned_cpu_layers = 0;

  double mean_ttft_s(std::size_t mode) const;
};

// For the given modes; `adapters` outlives it.
Result<std::vector<SweepCell>> run_sweep(const EngineSettings& settings,
                                         const SweepOptions& options,
                                         const std::vector<AdapterMode>& modes,
                                         ColdAdapters& adapters);

}  // namespace tandem
