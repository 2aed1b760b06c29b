#include "tools/simulate/recorded_cluster.h"

#include <fmt/format.h>

#include <algorithm>

#include "scheduler/cluster/report/engine_report.h"

namespace tandem {
namespace {

// Unlimited for practical purposes, because engines do not report the size of their host tier.
constexpr std::int64_t kHostBytes = std::int64_t{1} << 40;

}  // namespace

Result<SimMachine> machine_from_stats(std::string_view text) {
  TANDEM_ASSIGN(const EngineReport report, read_report(text));
  if (report.view.requests() > 0) {
    return invalid("{} requests run or wait in it; ask an idle engine", report.view.requests());
  }
  SimMachine machine;
  for (const AdapterReport& adapter : report.adapters) {
    if (adapter.rank < 1) continue;
    machine.bytes_per_rank = std::max(machine.bytes_per_rank, adapter.bytes / adapter.rank);
  }
  if (machine.bytes_per_rank == 0) {
    return invalid("it has no adapter, whose size would say what a rank takes");
  }
  machine.name = report.model;
  machine.description = fmt::format("as the engine of {} describes itself", report.model);
  machine.costs = report.view.costs;
  machine.cold = report.view.cold;
  machine.max_requests = report.view.max_requests;
  machine.kv_tokens = report.view.kv_tokens;
  machine.adapter_bytes = report.view.adapter_free_bytes;
  machine.host_bytes = kHostBytes;
  machine.workers = std::max(report.view.free_workers, 1);
  return machine;
}

}  // namespace tandem
