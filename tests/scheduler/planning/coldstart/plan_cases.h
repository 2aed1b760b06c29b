// Requests for planners, with Llama-2-7B's shapes and at random.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <utility>

#include "scheduler/planning/coldstart/planner.h"

namespace tandem {

// One layer of an adapter with rank `rank` on q, k and v of Llama-2-7B.
inline LayerLoad qkv_7b(std::int32_t rank) {
  const std::int64_t part = std::int64_t{3} * rank * 4096 * 2;
  return {.a_bytes = part,
          .b_bytes = part,
          .copies = 1,
          .modules = 3,
          .sites = 1,
          .ranks = 3 * rank,
          .in_elements = 4096,
          .out_elements = 3 * 4096};
}

inline LayerLoad all7_7b(std::int32_t rank) {
  const std::int64_t r = rank;  // `in` is 4096 except for down, `out` 11008 for gate and up
  return {.a_bytes = 2 * r * (6 * 4096 + 11008),
          .b_bytes = 2 * r * (5 * 4096 + 2 * 11008),
          .copies = 1,
          .modules = 7,
          .sites = 4,
          .ranks = 7 * rank,
          .in_elements = 3 * 4096 + 11008,
          .out_elements = 5 * 4096 + 2 * 11008};
}

inline ColdAdapter cold(std::int32_t rows, const LayerLoad& layer, std::size_t layers = 32) {
  ColdAdapter adapter;
  adapter.rows = rows;
  adapter.layers.assign(layers, layer);
  return adapter;
}

inline PlanRequest burst(std::int32_t count, std::int32_t tokens, const LayerLoad& layer) {
  PlanRequest request;
  request.rows = count * tokens;
  request.workers = 12;
  for (std::int32_t i = 0; i < count; ++i) request.adapters.push_back(cold(tokens, layer));
  return request;
}

// Sets the arrival times of these adapters' parts as if they were sent `lead_s` ago in this order.
inline void put_on_their_way(const CostModel& costs, std::span<const LoadPiece> order,
                             double lead_s, std::span<ColdAdapter> adapters) {
  for (ColdAdapter& adapter : adapters) {
    adapter.a_arrives.assign(adapter.layers.size(), 0);
    adapter.b_arrives.assign(adapter.layers.size(), 0);
  }
  double link = -lead_s;
  for (const LoadPiece& piece : order) {
    ColdAdapter& adapter = adapters[static_cast<std::size_t>(piece.adapter)];
    const auto l = static_cast<std::size_t>(piece.layer);
    const LayerLoad& layer = adapter.layers[l];
    link += costs.load_time((piece.kind == PieceKind::b ? 0 : layer.a_bytes) +
                                (piece.kind == PieceKind::a ? 0 : layer.b_bytes),
                            layer.copies);
    if (piece.kind != PieceKind::b) adapter.a_arrives[l] = link;
    if (piece.kind != PieceKind::a) adapter.b_arrives[l] = link;
  }
}

inline double end_of(const HandoffPlan& plan) {
  return plan.layer_ends.empty() ? 0 : plan.layer_ends.back();
}

// A sketched machine, fitted to these times: a layer of one adapter computed only by the CPU takes
// 26, 44, 118, 197, 388 us more than the resident layer for 1, 8, 32, 64, 128 tokens.
inline CostModel sketch(double link_gbps) {
  CostModel costs;
  costs.link_bytes_per_s = link_gbps * 1e9;
  costs.copy_s = 4e-6;  // pieces of 3 MB at 51.5 GB/s on a link of 55
  costs.layer_s = 131e-6;
  costs.layer_row_s = 0.77e-6;
  costs.overlap = 0.2;
  costs.prepare = 0;  // its workers did not prepare
  costs.trip_s = 2e-6;
  costs.row_byte_s = 3.5e-11;
  costs.worker_bytes_per_s = 9e9;
  costs.workers_bytes_per_s = 70e9;
  costs.worker_flops = 0.14e12;
  costs.worker_job_s = 2e-6;
  costs.xa_extra_s = 0;  // its measured layers include it
  return costs;
}

// Number of random requests per test, with seeds from 1 on.
inline constexpr std::uint64_t kSeeds = 400;

// Puts all of the adapter into host memory without a load.
inline void forget_times(ColdAdapter& adapter) {
  adapter.a_arrives.clear();
  adapter.b_arrives.clear();
  adapter.host_arrives.clear();
}

// Makes any request that an engine may make: adapters of different sizes and rows, some loading,
// some still being read, few or no workers, slow or fast links.
struct Random {
  explicit Random(std::uint64_t seed) : engine(seed) {}
  std::mt19937_64 engine;
  std::int32_t whole(std::int32_t low, std::int32_t high) {
    return std::uniform_int_distribution<std::int32_t>(low, high)(engine);
  }
  bool chance(double share) { return std::bernoulli_distribution(share)(engine); }
  double real(double low, double high) {  // log-uniform
    return low * std::pow(high / low, std::uniform_real_distribution<double>(0, 1)(engine));
  }
};

inline CostModel random_costs(Random& random) {
  CostModel costs;
  costs.link_bytes_per_s = random.real(1e9, 100e9);
  costs.copy_s = random.real(1e-7, 2e-5);
  costs.layer_s = random.real(1e-5, 1e-3);
  costs.layer_row_s = random.real(1e-8, 1e-5);
  costs.overlap = random.real(0.01, 0.25);
  costs.prepare = random.real(0.01, 1);
  costs.trip_s = random.real(1e-6, 5e-5);
  costs.offer_s = random.real(1e-7, 1e-5);
  costs.row_byte_s = random.real(5e-12, 2e-10);
  costs.worker_bytes_per_s = random.real(2e9, 30e9);
  costs.workers_bytes_per_s = random.real(10e9, 300e9);
  costs.worker_flops = random.real(1e10, 3e12);
  costs.worker_job_s = random.real(1e-6, 2e-5);
  costs.xa_extra_s = random.chance(0.5) ? 0 : random.real(1e-6, 1e-4);
  return costs;
}

// Also sets the layer factors of `costs` to 1 or to other values.
inline PlanRequest random_request(Random& random, CostModel& costs) {
  PlanRequest request;
  const auto layers = static_cast<std::size_t>(random.whole(1, 40));
  const std::int32_t count = random.whole(1, 12);
  request.workers = random.chance(0.1) ? 0 : random.whole(1, 40);
  if (random.chance(0.3)) request.workers_awake_in = random.real(1e-5, 1e-2);
  request.max_cpu_rows = random.chance(0.2) ? random.whole(0, 200) : 512;
  request.starts_in = random.chance(0.5) ? 0 : random.real(1e-5, 5e-3);
  request.link_busy_for = random.chance(0.5) ? 0 : random.real(1e-5, 2e-2);
  for (std::int32_t i = 0; i < count; ++i) {
    constexpr std::int32_t kRanks[] = {1, 8, 16, 64, 128, 512};
    const std::int32_t rank = kRanks[random.whole(0, 5)];
    ColdAdapter adapter = cold(static_cast<std::int32_t>(random.real(1, 300)),
                               random.chance(0.5) ? qkv_7b(rank) : all7_7b(rank), layers);
    if (random.chance(0.2)) {  // some layers are not adapted
      for (LayerLoad& layer : adapter.layers) {
        if (random.chance(0.3)) layer = LayerLoad{.copies = 0};
      }
    }
    if (random.chance(0.3)) {
      double a = random.chance(0.3) ? -1e-3 : 0;
      for (std::size_t l = 0; l < layers; ++l) {
        a += random.real(1e-6, 1e-3);
        adapter.a_arrives.push_back(a);
        adapter.b_arrives.push_back(random.chance(0.5) ? a : a / 2);
      }
    } else if (random.chance(0.2)) {
      double host = 0;
      for (std::size_t l = 0; l < layers; ++l) {
        host += random.real(1e-6, 1e-3);
        adapter.host_arrives.push_back(host);
      }
    }
    adapter.may_hand_over = !random.chance(0.1);
    request.rows += adapter.rows;
    request.adapters.push_back(std::move(adapter));
  }
  costs.factors.layers.values.fill(random.chance(0.5) ? 1 : random.real(0.5, 4));
  return request;
}

}  // namespace tandem
