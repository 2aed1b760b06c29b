// Times of steps, loads and workers: linear models as in the CaraServe paper (section 5), with
// coefficients measured by `tandem profile`. Seconds, bytes, rows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "scheduler/planning/costs/cost_factors.h"

namespace tandem {

// The weights to load and the work to compute for one layer of one adapter.
struct LayerLoad {
  std::int64_t a_bytes = 0;  // to load to one device
  std::int64_t b_bytes = 0;
  // The parts of the other devices that share the model: they are loaded at the same time over
  // links of their own, and workers compute from all parts.
  std::int64_t a_elsewhere = 0;
  std::int64_t b_elsewhere = 0;
  std::int32_t copies = 1;        // DMA operations
  std::int32_t modules = 0;       // adapted modules
  std::int32_t sites = 0;         // projections with adapted modules: round trips
  std::int32_t ranks = 0;         // sum over the modules
  std::int64_t in_elements = 0;   // in one row of x, over the sites
  std::int64_t out_elements = 0;  // in one row of y, over the modules

  bool operator==(const LayerLoad&) const = default;
};

// The cost of handing over one layer of a group, or of several groups that share the workers.
struct HandoverWork {
  double workers_s = 0;     // products, by all workers
  double stream_s = 0;      // reading weights by all workers, begun before the layer
  double wire_s = 0;        // transfers of x and y, or v, by kernels
  double link_s = 0;        // the part of wire_s that answers take from loads on the link
  double extra_s = 0;       // on the device, once for a layer
  std::int32_t sites = 0;   // round trips
  std::int32_t groups = 0;  // groups of rows that workers compute together

  StallKind kind() const {
    const unsigned multiplies = stream_s > workers_s ? 0 : 1;
    const unsigned xa = extra_s > 0 ? 2 : 0;
    const unsigned of_several = groups > 1 ? 4 : 0;
    return static_cast<StallKind>(multiplies + xa + of_several);
  }
  void add(const HandoverWork& other) {
    workers_s += other.workers_s;
    stream_s += other.stream_s;
    wire_s += other.wire_s;
    link_s += other.link_s;
    extra_s = std::max(extra_s, other.extra_s);
    sites = std::max(sites, other.sites);
    groups += other.groups;
  }
};

// The built-in figures were measured by `tandem profile` for Llama-2-7B in bf16 on one H200 with 12
// AMX workers.
struct CostModel {
  std::int32_t element_bytes = 2;  // of x, y and the weights
  // The link, host to device.
  double link_bytes_per_s = 55e9;
  double copy_s = 5.4e-6;  // per DMA operation, beyond its bytes
  // The device: one layer of a step takes layer_s, or layer_row_s for each row, if that is more.
  double layer_s = 127e-6;
  double layer_row_s = 0.76e-6;
  // The share of a layer's time that one site's GEMM takes: workers compute meanwhile.
  double overlap = 0.22;
  // The share of a layer's time before the doorbell in which workers read the next layer's weights.
  double prepare = 0.37;
  // One round trip of the handoff beyond the layer's own time: trip_s for each site, row_byte_s
  // for each byte of x and y (or v) that crosses.
  double trip_s = 7.4e-6;
  double row_byte_s = 2.1e-11;
  double offer_s = 3e-6;  // an offer and an accept of one site without rows for workers
  // Workers: reading weights by all cores together, and multiplying.
  double worker_bytes_per_s = 8.1e9;  // by one core, while cores scale
  double workers_bytes_per_s = 91e9;  // by all cores
  double worker_flops = 0.19e12;      // by one core
  double worker_job_s = 11.6e-6;      // per group and site
  // A handover takes longer in a step than alone on an idle machine, where `tandem profile`
  // measures it: the slowest worker counts, and answers and loads share the link. Steps of 19 and
  // 61 cold rows took 70 and 203 us a layer, 30 and 100 alone (H200, 12 workers, a load at 10 GB/s
  // under way).
  double in_step = 1.5;            // factor of the time alone,
  double in_step_extra_s = 25e-6;  // and seconds on top
  // Seconds on top of that if workers compute only x A^T: the device waits for B, then for v, and
  // multiplies them itself. Such layers of some 20 rows took 85 us, 41 without it (same machine).
  double xa_extra_s = 44e-6;
  // A group of up to this many rows per worker is split by columns, a larger one by rows.
  std::int32_t tokens_per_core = 21;
  // Measured time over the time by all these figures (cost_learner.h).
  CostFactors factors;

  double layer_time(std::int32_t rows) const {
    return modelled_layer(rows) * factors.layers.of(rows);
  }
  double load_time(std::int64_t bytes, std::int32_t copies) const {
    return modelled_load(bytes, copies) * factors.link;
  }
  // Without the factors.
  double modelled_layer(std::int32_t rows) const { return std::max(layer_s, layer_row_s * rows); }
  double modelled_load(std::int64_t bytes, std::int32_t copies) const {
    return static_cast<double>(bytes) / link_bytes_per_s + copy_s * copies;
  }
  // Returns the work of one layer of one group with `rows` rows on `workers` cores, at least one.
  // `xa`: x A^T alone.
  HandoverWork handover(const LayerLoad& layer, std::int32_t rows, std::int32_t workers,
                        bool xa) const;
  // Returns the model of a machine on which everything takes `times` times as long, without
  // factors.
  CostModel slowed(double times) const;
  // Seconds by which this handover lengthens a layer of a step of `step_rows` rows.
  double stall(const HandoverWork& work, std::int32_t step_rows) const {
    return stall_in(work, layer_time(step_rows));
  }
  // `layer` is layer_time() of the step. The planner calls this thousands of times.
  double stall_in(const HandoverWork& work, double layer) const {
    const double seconds = modelled_stall(work, layer);
    return seconds * factors.stall(work.kind(), seconds);
  }
  // Without the factors.
  double modelled_stall(const HandoverWork& work, double layer) const {
    const double stream = std::max(0.0, work.stream_s - prepare * layer);
    const double alone = std::max(trip_s, offer_s) * work.sites + work.wire_s +
                         std::max(0.0, work.workers_s + stream - overlap * work.sites * layer);
    return in_step * alone + in_step_extra_s + work.extra_s;
  }
  // The stall of one layer of one group alone in its step.
  double cpu_time(const LayerLoad& layer, std::int32_t rows, std::int32_t workers, bool xa) const;
  // Returns the most rows, up to `limit`, for which `workers` cores answer no later than the
  // layer's weights could be loaded; 0 if one row is too many.
  std::int32_t cpu_rows(const LayerLoad& layer, std::int32_t workers, std::int32_t limit) const;
};

}  // namespace tandem
