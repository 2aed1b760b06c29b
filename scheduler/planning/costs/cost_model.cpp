#include "scheduler/planning/costs/cost_model.h"

#include "base/check.h"

namespace tandem {
namespace {

constexpr double kBytesOfV = 4;  // f32

}  // namespace

HandoverWork CostModel::handover(const LayerLoad& layer, std::int32_t rows, std::int32_t workers,
                                 bool xa) const {
  TANDEM_CHECK(workers > 0, "handover to {} workers", workers);
  const std::int64_t a_bytes = layer.a_bytes + layer.a_elsewhere;
  const std::int64_t b_bytes = layer.b_bytes + layer.b_elsewhere;
  const auto bytes = static_cast<double>(xa ? a_bytes : a_bytes + b_bytes);
  const double flops = 2 * bytes / element_bytes * rows;
  const double x_bytes = static_cast<double>(layer.in_elements) * element_bytes * rows;
  const double y_bytes = xa ? kBytesOfV * layer.ranks * rows
                            : static_cast<double>(layer.out_elements) * element_bytes * rows;
  HandoverWork work;
  work.workers_s = flops / (worker_flops * workers) + worker_job_s * layer.sites;
  work.stream_s = bytes / std::min(worker_bytes_per_s * workers, workers_bytes_per_s);
  work.wire_s = (x_bytes + y_bytes) * row_byte_s;
  work.link_s = std::min(y_bytes / link_bytes_per_s * factors.link, work.wire_s);
  work.extra_s = xa ? xa_extra_s : 0;
  work.sites = layer.sites;
  work.groups = layer.sites > 0 ? 1 : 0;
  return work;
}

CostModel CostModel::slowed(double times) const {
  CostModel slow = *this;
  for (double CostModel::*seconds :
       {&CostModel::copy_s, &CostModel::layer_s, &CostModel::layer_row_s, &CostModel::trip_s,
        &CostModel::row_byte_s, &CostModel::offer_s, &CostModel::worker_job_s,
        &CostModel::in_step_extra_s, &CostModel::xa_extra_s}) {
    slow.*seconds *= times;
  }
  for (double CostModel::*a_second : {&CostModel::link_bytes_per_s, &CostModel::worker_bytes_per_s,
                                      &CostModel::workers_bytes_per_s, &CostModel::worker_flops}) {
    slow.*a_second /= times;
  }
  slow.factors = {};
  return slow;
}

double CostModel::cpu_time(const LayerLoad& layer, std::int32_t rows, std::int32_t workers,
                           bool xa) const {
  return stall(handover(layer, rows, workers, xa), rows);
}

std::int32_t CostModel::cpu_rows(const LayerLoad& layer, std::int32_t workers,
                                 std::int32_t limit) const {
  if (workers <= 0) return 0;
  const double load = load_time(layer.a_bytes + layer.b_bytes, layer.copies);
  std::int32_t low = 0;
  std::int32_t high = std::max(limit, 0);
  // The stall falls with more rows only where a longer GEMM hides more of it; fewer rows are then
  // no worse than the bound that is found.
  while (low < high) {
    const std::int32_t middle = low + (high - low + 1) / 2;
    if (cpu_time(layer, middle, workers, false) <= load) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

}  // namespace tandem
