// The setting adapter_mode: how requests are computed whose adapter is not on the device yet.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tandem {

enum class AdapterMode : std::uint8_t {
  cached,      // every adapter is loaded before its name is served, and is never evicted
  on_demand,   // a sequence waits until its adapter has arrived
  pipelined,   // a sequence starts at once, and each layer waits for its part of the adapter
  cpu_assist,  // CPU workers compute it until all of it has arrived (as in the CaraServe paper)
  planned,     // the planner decides per layer: wait, CPU, or CPU for x A^T with B loaded first
};

inline constexpr std::array kAdapterModes = {AdapterMode::cached, AdapterMode::on_demand,
                                             AdapterMode::pipelined, AdapterMode::cpu_assist,
                                             AdapterMode::planned};

constexpr std::string_view to_string(AdapterMode mode) {
  switch (mode) {
    case AdapterMode::cached:
      return "cached";
    case AdapterMode::on_demand:
      return "on_demand";
    case AdapterMode::pipelined:
      return "pipelined";
    case AdapterMode::cpu_assist:
      return "cpu_assist";
    case AdapterMode::planned:
      return "planned";
  }
  return "?";
}

// Returns nothing for an unknown name.
constexpr std::optional<AdapterMode> parse_adapter_mode(std::string_view name) {
  for (const AdapterMode mode : kAdapterModes) {
    if (to_string(mode) == name) return mode;
  }
  return std::nullopt;
}

// No adapter is ever cold: all of them stay on the device.
constexpr bool keeps_all(AdapterMode mode) {
  return mode == AdapterMode::cached;
}
// A sequence may run while its adapter is still being loaded.
constexpr bool starts_before_arrival(AdapterMode mode) {
  return mode == AdapterMode::pipelined || mode == AdapterMode::cpu_assist ||
         mode == AdapterMode::planned;
}
// CPU workers compute the layers that have not arrived.
constexpr bool hands_over(AdapterMode mode) {
  return mode == AdapterMode::cpu_assist || mode == AdapterMode::planned;
}
// CPU workers compute all layers until the whole adapter has arrived.
constexpr bool hands_over_whole_loads(AdapterMode mode) {
  return mode == AdapterMode::cpu_assist;
}
// Measured costs decide who computes which layer, which load goes first, and who starts when.
constexpr bool goes_by_figures(AdapterMode mode) {
  return mode == AdapterMode::planned;
}

}  // namespace tandem
