#include "tools/bench/coldstart/cold_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace tandem {
namespace {

constexpr Duration kPatience = std::chrono::seconds(20);

std::vector<std::string> names_of(const std::vector<AdapterInfo>& adapters) {
  std::vector<std::string> names;
  names.reserve(adapters.size());
  for (const AdapterInfo& adapter : adapters) names.push_back(adapter.name);
  return names;
}

}  // namespace

Result<std::unique_ptr<ColdEngine>> ColdEngine::start(const EngineSettings& settings,
                                                      ColdAdapters& adapters) {
  std::unique_ptr<ColdEngine> cold(new ColdEngine(adapters));
  cold->cached_ = keeps_all(settings.options.adapter_mode);
  constexpr double kLonger = 1.25;
  cold->settle_s_ = kLonger * settings.options.handoff.spin_ms / 1e3;
  TANDEM_ASSIGN(cold->setup_,
                set_up_engine(settings, {}, LoadReport::terminal_only, FirstCosts::measured));
  return cold;
}

Status ColdEngine::warm_up(std::int32_t rank) {
  constexpr std::int32_t kPrompt = 19;
  constexpr std::int32_t kOutput = 4;
  TANDEM_ASSIGN(const auto names, add(2, rank));
  TANDEM_ASSIGN([[maybe_unused]] const AnsweredTrace answered,
                run(burst_trace(names, kPrompt, kOutput), 1));
  return clear();
}

std::int32_t ColdEngine::wait_for_workers(std::int32_t count) {
  const auto late = std::chrono::steady_clock::now() + kPatience;
  std::int32_t up = engine().stats().cpu_workers;
  while (up < count && std::chrono::steady_clock::now() < late) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    up = engine().stats().cpu_workers;
  }
  return up;
}

Result<std::vector<std::string>> ColdEngine::add(std::int32_t count, std::int32_t rank) {
  std::vector<std::string> names;
  for (std::int32_t i = 0; i < count; ++i) {
    names.push_back(fmt::format("cold-{}", num_added_++));
    TANDEM_TRY(engine().adapter_store().add(
        names.back(), adapters_->contents(rank, static_cast<std::size_t>(i)), false, false));
  }
  if (cached_) TANDEM_TRY(warm(names));
  return names;
}

Result<std::vector<std::string>> ColdEngine::add_on_disk(std::int32_t count, std::int32_t rank) {
  TANDEM_ASSIGN(const std::vector<std::string> folders, adapters_->folders(rank));
  std::vector<std::string> names;
  for (std::int32_t i = 0; i < count; ++i) {
    names.push_back(fmt::format("disk-{}", num_added_++));
    TANDEM_TRY(engine().load_adapter(
        names.back(), folders[static_cast<std::size_t>(i) % folders.size()], false, false));
  }
  if (!cached_) TANDEM_TRY(push_to_disk(names, rank));
  return names;
}

// Fills the host tier with adapters that have no folder until it drops those that have one.
Status ColdEngine::push_to_disk(const std::vector<std::string>& names, std::int32_t rank) {
  const auto all_on_disk = [&] {
    const std::vector<AdapterInfo> adapters = engine().adapters();
    return std::all_of(adapters.begin(), adapters.end(), [&](const AdapterInfo& adapter) {
      return adapter.tier == "disk" ||
             std::find(names.begin(), names.end(), adapter.name) == names.end();
    });
  };
  std::vector<std::string> fillers;
  while (!all_on_disk()) {
    const std::string name = fmt::format("filler-{}", num_added_++);
    const Status added =
        engine().adapter_store().add(name, adapters_->contents(rank, 0), false, false);
    if (added.code() == StatusCode::resource_exhausted) break;
    TANDEM_TRY(added);
    fillers.push_back(name);
  }
  if (!all_on_disk()) {
    return error(StatusCode::internal, "the host tier keeps adapters that their folders have");
  }
  TANDEM_TRY(unload(fillers));
  return wait_for_room(0);
}

Status ColdEngine::warm(const std::vector<std::string>& names) {
  TANDEM_ASSIGN([[maybe_unused]] const AnsweredTrace answered,
                run(burst_trace(names, 1, 1), num_added_));
  return wait_for_loads(names);
}

Status ColdEngine::settle(std::span<const std::string> names) {
  TANDEM_TRY(wait_for_loads(names));
  std::this_thread::sleep_for(std::chrono::duration<double>(settle_s_));
  return {};
}

Status ColdEngine::wait_for_loads(std::span<const std::string> names) {
  const auto late = std::chrono::steady_clock::now() + kPatience;
  for (const std::string& name : names) {
    while (engine().adapter_store().find(name)->residency() != Residency::resident) {
      if (std::chrono::steady_clock::now() > late) {
        return error(StatusCode::resource_exhausted,
                     "the device does not hold all {} adapters at once: raise pool_gb or lower "
                     "requests",
                     names.size());
      }
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }
  return {};
}

Status ColdEngine::unload(const std::vector<std::string>& names) {
  for (const std::string& name : names) TANDEM_TRY(engine().unload_adapter(name));
  return {};
}

Status ColdEngine::clear() {
  TANDEM_TRY(unload(names_of(engine().adapters())));
  return wait_for_room(0);
}

// Waits until the engine's thread has released unloaded adapters, which it does at its next check.
Status ColdEngine::wait_for_room(std::uint64_t used) {
  const auto late = std::chrono::steady_clock::now() + kPatience;
  while (engine().adapter_store().host_tier().used() > used) {
    if (std::chrono::steady_clock::now() > late) {
      return error(StatusCode::internal, "adapters that were unloaded still take {} bytes",
                   engine().adapter_store().host_tier().used());
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return {};
}

}  // namespace tandem
