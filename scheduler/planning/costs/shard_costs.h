// Costs of adapters on devices that share a model: they decide whether each device computes all of
// x A^T, or a share that the devices then gather.
#pragma once

#include <cstdint>

namespace tandem {

// Seconds and bytes per second, per device. The built-in figures are guesses for an H200 whose
// neighbours are connected by NVLink.
struct ShardCosts {
  double adapter_bytes_per_s = 2.8e12;  // at which a decode step reads A
  double gather_s = 6e-6;               // per gather, beyond its bytes: the devices synchronize
  double gather_bytes_per_s = 150e9;    // for bytes from the other devices
  double launch_s = 1.5e-6;             // for the second launch of two halves
};

// The same for host devices, which are threads of one process.
constexpr ShardCosts shard_costs_of_host() {
  return {
      .adapter_bytes_per_s = 10e9, .gather_s = 30e-6, .gather_bytes_per_s = 10e9, .launch_s = 5e-6};
}

// x A^T of one projection in a step, for all of its adapters.
struct ShrinkWork {
  std::int64_t a_bytes = 0;  // A of the distinct adapters
  std::int64_t v_bytes = 0;  // products: a row for each token, all ranks
};

// Seconds that a step gains if each of `num_devices` computes a share and gathers the rest;
// negative if it loses.
constexpr double saved_by_gather(const ShardCosts& costs, const ShrinkWork& work,
                                 std::int32_t num_devices) {
  const double of_others = 1.0 - 1.0 / num_devices;
  const double saved_s = of_others * static_cast<double>(work.a_bytes) / costs.adapter_bytes_per_s;
  const double gather_s =
      costs.gather_s + of_others * static_cast<double>(work.v_bytes) / costs.gather_bytes_per_s;
  return saved_s - gather_s - costs.launch_s;
}

}  // namespace tandem
