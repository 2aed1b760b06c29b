// Tables as a machine with known costs would measure them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <string_view>

#include "engine/profile/profile.h"

namespace tandem {

inline CostModel known_costs() {
  CostModel costs;
  costs.link_bytes_per_s = 50e9;
  costs.copy_s = 3e-6;
  costs.layer_s = 110e-6;
  costs.layer_row_s = 0.7e-6;
  costs.overlap = 0.22;
  costs.prepare = 0.5;
  costs.trip_s = 9e-6;
  costs.row_byte_s = 2.5e-11;
  costs.worker_bytes_per_s = 10e9;
  costs.workers_bytes_per_s = 90e9;
  costs.worker_flops = 0.5e12;
  costs.worker_job_s = 4e-6;
  costs.tokens_per_core = 4;
  return costs;
}

// Returns the profile of a machine with these costs; `seen` maps the true time to the measured one.
using Seen = std::function<double(std::string_view table, double seconds)>;
inline Profile measured(const CostModel& costs, const Seen& seen) {
  Profile profile;
  profile.model = {"llama-2-7b", 4096, 32, 32, 32, 128, 11008, 32000, DType::bf16};
  profile.machine = {"Some CPU", 16, "NVIDIA H200"};
  profile.date = "2026-11-20T18:50:04Z";
  profile.commit = "abc";
  profile.workers = 12;
  ProfileTable link{"link", {"bytes", "seconds"}, {}};
  for (double bytes = 65536; bytes < 3e7; bytes *= 3) {
    link.rows.push_back({bytes, seen("link", costs.copy_s + bytes / costs.link_bytes_per_s)});
  }
  ProfileTable prefill{"prefill", {"tokens", "seconds"}, {}};
  ProfileTable decode{"decode", {"batch", "context", "seconds"}, {}};
  for (std::int32_t rows = 1; rows <= 2048; rows *= 2) {
    prefill.rows.push_back(
        {static_cast<double>(rows), seen("prefill", 32 * costs.layer_time(rows))});
    decode.rows.push_back({static_cast<double>(rows), 512, seen("decode", 3e-3 + 1e-5 * rows)});
  }
  const ProfileTable gemm{"gemm", {"rows", "seconds"}, {{1, 4 * costs.overlap * costs.layer_s}}};
  ProfileTable lora{"lora", {"batch", "max_rank", "sum_ranks", "seconds"}, {}};
  for (const double batch : {1., 4., 16., 64.}) {
    for (const double share : {1., 0.5, 0.25}) {
      lora.rows.push_back(
          {batch, 64, batch * 64 * share, seen("lora", 3e-6 + 2e-9 * batch * 64 * share)});
    }
  }
  const ProfileTable memory{"memory", {"cores", "bytes_per_s"}, {{1, 10e9}, {4, 40e9}, {12, 90e9}}};
  ProfileTable worker{
      "worker",
      {"workers", "rank", "rows", "by_tokens", "groups", "gap_s", "bytes", "flops", "seconds"},
      {}};
  const double gap_s = costs.prepare * costs.layer_s;
  for (const std::int32_t workers : {1, 4, 12}) {
    for (const std::int32_t rank : {16, 64}) {
      for (const std::int32_t rows : {1, 8, 32, 48, 96, 128}) {
        for (const double groups : {1., 8.}) {
          LayerLoad load;
          load.a_bytes = load.b_bytes = std::int64_t{3} * rank * 4096 * 2;
          load.sites = 1;
          const HandoverWork work = costs.handover(load, rows, workers, false);
          const double best =
              groups * work.workers_s + std::max(0.0, groups * work.stream_s - gap_s);
          const double bytes = groups * static_cast<double>(load.a_bytes + load.b_bytes);
          const bool columns_win = rows <= costs.tokens_per_core * workers;
          for (const double by_tokens : {0., 1.}) {
            const bool wins = (by_tokens == 0) == columns_win;
            worker.rows.push_back({static_cast<double>(workers), static_cast<double>(rank),
                                   static_cast<double>(rows), by_tokens, groups, gap_s, bytes,
                                   bytes * rows, seen("worker", wins ? best : 1.5 * best)});
          }
        }
      }
    }
  }
  ProfileTable trip{"trip", {"rows", "bytes", "seconds"}, {}};
  for (const double rows : {1., 8., 64., 256.}) {
    trip.rows.push_back(
        {rows, rows * 32768, seen("trip", costs.trip_s + costs.row_byte_s * rows * 32768)});
  }
  profile.tables = {link, prefill, decode, gemm, lora, memory, worker, trip};
  return profile;
}

inline Profile measured(const CostModel& costs, double noise, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> by(1, noise);
  return measured(costs, [&](std::string_view, double seconds) {
    return seconds * (noise > 0 ? by(random) : 1);
  });
}

}  // namespace tandem
