#include "tools/bench/coldstart/cold_sweep.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/log/log.h"
#include "tools/bench/coldstart/cold_engine.h"
#include "tools/bench/common/bench_report.h"
#include "tools/bench/measure/bench_trace.h"
#include "tools/setup/handoff_setup.h"

namespace tandem {
namespace {

constexpr std::int32_t kSweepOutput = 4;  // only the first token counts
constexpr double kSpinMs = 20;

std::vector<SweepCell> cells_of(const SweepOptions& options, double link_gbps) {
  std::vector<SweepCell> cells;
  for (const std::string& tier : options.tiers) {
    for (const std::int64_t adapters : options.adapters) {
      for (const std::int64_t tokens : options.tokens) {
        for (const std::int64_t rank : options.ranks) {
          SweepCell& cell = cells.emplace_back();
          cell.link_gbps = link_gbps;
          cell.on_disk = tier == "disk";
          cell.burst = {static_cast<std::int32_t>(adapters), static_cast<std::int32_t>(tokens),
                        static_cast<std::int32_t>(rank)};
        }
      }
    }
  }
  return cells;
}

class Sweep {
 public:
  Sweep(const EngineSettings& settings, const SweepOptions& options,
        const std::vector<AdapterMode>& modes, ColdAdapters& adapters)
      : settings_(settings), options_(options), modes_(modes), adapters_(adapters) {}

  Status go(double link_gbps, std::vector<SweepCell>& done) {
    log::info("sweep over {}: {} engines start",
              link_gbps > 0 ? fmt::format("{:g} GB/s", link_gbps) : "the link as it is",
              modes_.size());
    std::vector<std::unique_ptr<ColdEngine>> engines;
    for (const AdapterMode mode : modes_) {
      TANDEM_ASSIGN(engines.emplace_back(),
                    ColdEngine::start(settings_for(mode, link_gbps), adapters_));
      TANDEM_TRY(engines.back()->warm_up(static_cast<std::int32_t>(options_.ranks.front())));
    }
    const EngineSetup& setup = engines.front()->setup();
    TANDEM_ASSIGN(
        const HandoffOptions handoff,
        choose_handoff(settings_for(AdapterMode::planned, link_gbps), setup.spec, setup.dtype,
                       setup.devices.front()->info(), setup.model_name, setup.cores.plan));
    for (SweepCell& cell : cells_of(options_, link_gbps)) {
      const std::string name = cell.burst.name() + (cell.on_disk ? ", from disk" : "");
      log::info("{}", name);
      TANDEM_TRY(run(cell, engines));
      // A sweep takes minutes, so each cell is logged; the log keeps the results of a stopped
      // sweep.
      log::info("{}: {} ms", name, mean_ttfts(cell));
      set_floor(cell, handoff.costs.link_bytes_per_s, setup.spec.num_layers());
      done.push_back(std::move(cell));
    }
    return {};
  }

 private:
  // All engines share the device's memory.
  EngineSettings settings_for(AdapterMode mode, double link_gbps) const {
    EngineSettings with = settings_;
    const auto most = *std::ranges::max_element(options_.adapters) * (options_.rounds + 1);
    const auto rank = static_cast<std::int32_t>(*std::ranges::max_element(options_.ranks));
    const double bytes = static_cast<double>(adapters_.host_tier_bytes(most, rank));
    with.options.adapter_mode = mode;
    // Engines run alternately: each burst should find its own and all other workers asleep.
    with.options.handoff.spin_ms = std::min(with.options.handoff.spin_ms, kSpinMs);
    with.options.prefix_cache = false;  // the same few contents and prompts are used repeatedly
    with.link_gbps = link_gbps;
    with.host_tier_gb = bytes / 1e9;
    if (with.pool_gb == 0) with.pool_gb = 1.25 * bytes / 1e9 + 4;
    with.options.max_device_adapters =
        std::max(with.options.max_device_adapters, static_cast<std::int32_t>(most + 2));
    return with;
  }

  Status run(SweepCell& cell, std::span<const std::unique_ptr<ColdEngine>> engines) const {
    const ColdBurst& burst = cell.burst;
    cell.ttfts.resize(engines.size());
    std::vector<std::vector<std::string>> names;  // [engine]
    for (const auto& engine : engines) {
      const std::int32_t count = burst.adapters * (options_.rounds + 1);
      TANDEM_ASSIGN(names.emplace_back(), cell.on_disk ? engine->add_on_disk(count, burst.rank)
                                                       : engine->add(count, burst.rank));
    }
    for (std::int32_t round = 0; round <= options_.rounds; ++round) {
      for (std::size_t turn = 0; turn < engines.size(); ++turn) {
        // Another engine begins in each round, because reading the same files again is faster.
        const std::size_t i = (turn + static_cast<std::size_t>(round)) % engines.size();
        const auto first = names[i].begin() + round * burst.adapters;
        const std::uint64_t before = engines[i]->engine().stats().handoff_cpu_layers;
        TANDEM_ASSIGN(const AnsweredTrace answered,
                      engines[i]->run(
                          burst_trace({first, first + burst.adapters}, burst.tokens, kSweepOutput),
                          100 + static_cast<std::uint64_t>(round)));
        TANDEM_TRY(engines[i]->settle({first, first + burst.adapters}));
        if (round == 0) continue;
        if (modes_[i] == AdapterMode::planned) {
          const std::uint64_t after = engines[i]->engine().stats().handoff_cpu_layers;
          cell.planned_cpu_layers += static_cast<double>(after - before) / options_.rounds;
        }
        for (const AnsweredRequest& request : answered.requests) {
          cell.ttfts[i].push_back(request.ttft_s);
        }
      }
    }
    for (const auto& engine : engines) TANDEM_TRY(engine->clear());
    return {};
  }

  // "planned 5.78, pipelined 5.66"
  std::string mean_ttfts(const SweepCell& cell) const {
    std::vector<std::string> each;
    for (std::size_t i = 0; i < modes_.size(); ++i) {
      each.push_back(fmt::format("{} {:.2f}", to_string(modes_[i]), cell.mean_ttft_s(i) * 1e3));
    }
    return fmt::format("{}", fmt::join(each, ", "));
  }

  // Computes the floor from the resident run of the same prompts and the profile's link speed.
  void set_floor(SweepCell& cell, double link_bytes_per_s, std::int64_t num_layers) const {
    const auto cached = std::ranges::find_if(modes_, keeps_all);
    if (cached == modes_.end()) return;
    const auto which = static_cast<std::size_t>(cached - modes_.begin());
    const double resident = cell.mean_ttft_s(which);
    const double load =
        static_cast<double>(adapters_.contents(cell.burst.rank, 0).num_bytes) / link_bytes_per_s;
    const double layer = resident / static_cast<double>(num_layers);
    double sum = 0;
    for (std::int32_t i = 1; i <= cell.burst.adapters; ++i) {
      sum += std::max(resident, i * load + layer);
    }
    cell.link_floor_s = sum / cell.burst.adapters;
  }

  const EngineSettings& settings_;
  const SweepOptions& options_;
  const std::vector<AdapterMode>& modes_;
  ColdAdapters& adapters_;
};

}  // namespace

std::string ColdBurst::name() const {
  return fmt::format("{} x {} tokens, rank {}", adapters, tokens, rank);
}

double SweepCell::mean_ttft_s(std::size_t mode) const {
  return Samples{"", "", ttfts[mode]}.mean();
}

Result<std::vector<SweepCell>> run_sweep(const EngineSettings& settings,
                                         const SweepOptions& options,
                                         const std::vector<AdapterMode>& modes,
                                         ColdAdapters& adapters) {
  std::vector<SweepCell> cells;
  Sweep sweep(settings, options, modes, adapters);
  for (const double link_gbps : options.links_gbps) TANDEM_TRY(sweep.go(link_gbps, cells));
  return cells;
}

}  // namespace tandem
