#include "engine/batching/statistics.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

#include "engine/loader/score_head.h"

namespace tandem {
namespace {

LearnedCosts::Factor factor_of(std::string_view name, const FactorTable& table,
                               const FactorTracker::Lessons& lessons) {
  LearnedCosts::Factor factor;
  factor.of = name;
  factor.by_size.assign(table.values.begin(), table.values.end());
  std::vector<double> ratios;
  for (const auto& bucket : lessons) ratios.insert(ratios.end(), bucket.begin(), bucket.end());
  factor.lessons = ratios.size();
  if (ratios.empty()) return factor;
  const auto median = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::ranges::nth_element(ratios, median);
  factor.factor = *median;
  return factor;
}

}  // namespace

void count_sequences(const ContinuousBatcher& scheduler, EngineStats& stats) {
  stats.waiting = static_cast<std::int32_t>(scheduler.num_waiting());
  stats.running = static_cast<std::int32_t>(scheduler.num_running());
  stats.prefix_queries = scheduler.prefixes().queries();
  stats.prefix_hits = scheduler.prefixes().hits();
  stats.preemptions = scheduler.num_preemptions();
  const LineCounts line = scheduler.line().counts();
  stats.aborts_expired = line.aborts_expired;
  stats.aborts_unreachable = line.aborts_unreachable;
  stats.tenants = static_cast<std::int32_t>(line.tenants);
  stats.overloaded = line.overloaded;
  stats.longest_prefill_s = line.longest_prefill_s;
}

void count_pages(const PagePool& pool, EngineStats& stats) {
  const PoolCounts pages = pool.counts();
  stats.page_tokens = pool.shape().page_tokens;
  stats.pages_total = pool.shape().num_pages;
  stats.pages_free = pages.free;
  stats.pages_kv = pages.kv;
  stats.pages_cached = pages.cached;
  stats.pages_adapter = pages.adapter;
}

void count_steps(const Executor& executor, EngineStats& stats) {
  const EnqueueCounts counts = executor.times().counts();
  stats.steps_at_once = counts.at_once;
  stats.steps_in_time = counts.in_time;
  stats.steps_late = counts.late;
  stats.enqueue_margin_s = counts.margin_s;
}

void count_adapters(const AdapterStore& store, Executor& executor, EngineStats& stats) {
  const DeviceTierCounts adapters = executor.tier().counts();
  stats.adapter_loads = adapters.loads;
  stats.adapter_loaded_bytes = adapters.loaded_bytes;
  stats.adapter_evictions = adapters.evictions;
  stats.adapter_early_arrivals = store.early_arrivals();
  stats.adapter_load = adapters.load_times;
  stats.host_tier_bytes = store.host_tier().capacity();
  stats.host_tier_used = store.host_tier().used();
  if (executor.handoff() == nullptr) return;
  const HandoffCounts& handoff = executor.handoff()->counts();
  stats.handoff_steps = handoff.steps;
  stats.handoff_rows = handoff.rows;
  stats.handoff_cpu_layers = handoff.cpu_layers;
  stats.handoff_gpu_layers = handoff.gpu_layers;
  stats.handoff_timed_out = handoff.timed_out;
  stats.handoff_planned_seconds = handoff.planned_s;
  stats.handoff_actual_seconds = handoff.actual_s;
  stats.handoff_plan_error = handoff.plan_error;
}

void count_workers(const Handoff& handoff, EngineStats& stats) {
  stats.cpu_workers = handoff.live_workers();
  for (const WorkerStatus& worker : handoff.workers()) {
    stats.worker_restarts += worker.restarts;
    stats.worker_busy_s += worker.busy_s;
  }
}

AdapterPresence presence_of(const AdapterLease& adapter) {
  const auto tier = [](Residency residency) {
    switch (residency) {
      case Residency::on_disk:
        return AdapterTier::absent;
      case Residency::host:
      case Residency::evicting:
        return AdapterTier::host;
      case Residency::loading:
        return AdapterTier::loading;
      case Residency::resident:
        return AdapterTier::resident;
    }
    return AdapterTier::absent;
  };
  AdapterPresence presence;
  presence.name = std::shared_ptr<const std::string>(adapter, &adapter->name());
  presence.digest = std::shared_ptr<const std::string>(adapter, &adapter->contents().digest);
  presence.rank = adapter->contents().max_rank;
  presence.bytes = adapter->bytes();
  presence.tier = tier(adapter->residency());
  presence.active = adapter->running.load(std::memory_order_relaxed) +
                    adapter->waiting.load(std::memory_order_relaxed);
  presence.pinned = adapter->pinned();
  return presence;
}

AdapterInfo describe(const ServedAdapter& adapter) {
  AdapterInfo info;
  info.name = adapter.name();
  info.path = adapter.path();
  info.digest = adapter.contents().digest;
  info.rank = adapter.contents().max_rank;
  info.modules = adapter.contents().modules;
  const auto& score = adapter.contents().score;
  info.labels = score == nullptr ? 0 : score->labels;
  info.vocab_size = adapter.contents().vocab_size;
  info.bytes = adapter.bytes();
  info.tier = tier_name(adapter.residency());
  info.pinned = adapter.pinned();
  info.loaded_unix = adapter.loaded_unix();
  info.running = adapter.running.load(std::memory_order_relaxed);
  info.waiting = adapter.waiting.load(std::memory_order_relaxed);
  info.hits = adapter.hits.load(std::memory_order_relaxed);
  info.cold_starts = adapter.cold_starts.load(std::memory_order_relaxed);
  return info;
}

LearnedCosts describe(const HandoffLearning& learning) {
  LearnedCosts costs;
  costs.factors.push_back({"link", learning.factors.link, {}, learning.lessons.link.size()});
  costs.factors.push_back(factor_of("layers", learning.factors.layers, learning.lessons.layers));
  for (std::size_t i = 0; i < kNumStallKinds; ++i) {
    costs.factors.push_back(
        factor_of(kStallNames[i], learning.factors.stalls[i], learning.lessons.stalls[i]));
  }
  costs.lessons = learning.observed;
  costs.situations = learning.situations;
  costs.plans_followed = learning.plans_followed;
  costs.plans_given_up = learning.plans_given_up;
  costs.worker_wake_s = learning.worker_wake_s;
  return costs;
}

}  // namespace tandem
