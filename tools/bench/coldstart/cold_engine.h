// An engine in one adapter mode, to which the cold start benchmark adds cold adapters.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/batching/engine.h"
#include "tools/bench/coldstart/cold_adapters.h"
#include "tools/bench/measure/bench_trace.h"
#include "tools/settings/engine_settings.h"
#include "tools/setup/engine_setup.h"

namespace tandem {

class ColdEngine {
 public:
  // `settings` include adapter_mode, link_gbps and host_tier_gb. `adapters` outlives it.
  static Result<std::unique_ptr<ColdEngine>> start(const EngineSettings& settings,
                                                   ColdAdapters& adapters);

  // Serves and removes a few cold adapters, so that everything created on first use exists.
  Status warm_up(std::int32_t rank);
  // Waits until `count` CPU workers are up, or for some seconds; returns the number that are up.
  std::int32_t wait_for_workers(std::int32_t count);

  // Adds adapters with new names to the host tier, which have never been on the device; in mode
  // cached, on the device.
  Result<std::vector<std::string>> add(std::int32_t count, std::int32_t rank);
  // Like add(), with the weights only on disk (and in the page cache).
  Result<std::vector<std::string>> add_on_disk(std::int32_t count, std::int32_t rank);
  // Loads them to the device.
  Status warm(const std::vector<std::string>& names);
  // Waits until all of them are on the device.
  Status wait_for_loads(std::span<const std::string> names);
  // Like wait_for_loads(), and waits until the CPU workers sleep: for engines that run alternately.
  Status settle(std::span<const std::string> names);
  // Removes all adapters; when it returns, their memory is free.
  Status clear();

  Result<AnsweredTrace> run(const ArrivalTrace& trace, std::uint64_t seed) {
    return run_trace(*setup_->engine, setup_->clock, trace, seed);
  }

  Engine& engine() { return *setup_->engine; }
  const EngineSetup& setup() const { return *setup_; }
  bool cached() const { return cached_; }

 private:
  explicit ColdEngine(ColdAdapters& adapters) : adapters_(&adapters) {}
  Status unload(const std::vector<std::string>& names);
  Status wait_for_room(std::uint64_t used);
  Status push_to_disk(const std::vector<std::string>& names, std::int32_t rank);

  ColdAdapters* adapters_;
  std::unique_ptr<EngineSetup> setup_;
  double settle_s_ = 0;
  bool cached_ = false;
  std::uint64_t num_added_ = 0;
};

}  // namespace tandem
