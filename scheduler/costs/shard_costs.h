// What adapters cost on devices that share a model: whether each computes all of x A^T, or a share
// of it that it tells the others.
#pragma once

#include <cstdint>

namespace tandem {

// Seconds and bytes per second, of one device. The built-in figures are guesses for an H200 whose
// neighbours are behind NVLink.
struct ShardCosts {
  double adapter_bytes_per_s = 2.8e12;  // at which a decode step reads A
  double gather_s = 6e-6;               // of a gather beyond its bytes: the devices meet
  double gather_bytes_per_s = 150e9;    // of what comes from the others
  double launch_s = 1.5e-6;             // of the launch that two halves are more than one operation
};

// The same for host devices, which are threads of one process.
constexpr ShardCosts shard_costs_of_host() {
  return {
      .adapter_bytes_per_s = 10e9, .gather_s = 30e-6, .gather_bytes_per_s = 10e9, .launch_s = 5e-6};
}

// x A^T of one projection in a step, for all of its adapters.
struct ShrinkWork {
  std::int64_t a_bytes = 0;  // of the distinct adapters' A
  std::int64_t v_bytes = 0;  // of the products: a row for each token, all ranks
};

// How much sooner a step ends when each of so many devices computes a share and gathers the rest;
// below zero when it ends later.
constexpr double saved_by_gather(const ShardCosts& costs, const ShrinkWork& work,
                                 std::int32_t num_devices) {
  const double of_others = 1.0 - 1.0 / num_devices;
  const double saved_s = of_others * static_cast<double>(work.a_bytes) / costs.adapter_bytes_per_s;
  const double gather_s =
      costs.gather_s + of_others * static_cast<double>(work.v_bytes) / costs.gather_bytes_per_s;
  return saved_s - gather_s - costs.launch_s;
}

}  // namespace tandem
