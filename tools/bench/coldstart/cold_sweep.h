// The sweep of the cold start benchmark: bursts of every size over links of every speed, from host
// memory and from disk. All modes take part in each cell by turns, an engine each, so that what
// drifts on a machine hits all alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/service/adapter_mode.h"
#include "tools/bench/coldstart/cold_adapters.h"
#include "tools/cli/settings.h"

namespace tandem {

// Adapters that are asked for at once, each by one prompt.
struct ColdBurst {
  std::int32_t adapters = 0;
  std::int32_t tokens = 0;  // of each prompt
  std::int32_t rank = 0;

  std::string name() const;  // "8 x 64 tokens, rank 64"
};

struct SweepOptions {
  std::vector<double> links_gbps = {0, 10};  // 0: as it is
  std::vector<std::int64_t> adapters = {1, 8};
  std::vector<std::int64_t> tokens = {8, 64, 256};
  std::vector<std::int64_t> ranks = {64};
  std::vector<std::string> tiers = {"host"};  // and "disk", in the page cache
  std::int32_t rounds = 3;                    // of each cell, and one before that nobody counts
};

struct SweepCell {
  double link_gbps = 0;  // 0: as it is
  bool on_disk = false;
  ColdBurst burst;
  std::vector<std::vector<double>> ttfts;  // [mode of the sweep], seconds, of all rounds
  // Mean TTFT if every adapter were served as soon as the link has brought it, one behind another:
  // what no mode that waits for weights can be below. 0: no resident run to count from.
  double link_floor_s = 0;
  // Layers of adapters that workers computed anything of, a burst, in `planned`. Where it is 0,
  // what planned did is what `pipelined` does.
  double planned_cpu_layers = 0;

  double mean_ttft_s(std::size_t mode) const;
};

// Of the modes given; `adapters` outlives it.
Result<std::vector<SweepCell>> run_sweep(const EngineSettings& settings,
                                         const SweepOptions& options,
                                         const std::vector<AdapterMode>& modes,
                                         ColdAdapters& adapters);

}  // namespace tandem
