// The parts of Engine that any thread may ask: adapters, statistics, drain.
#include <algorithm>

#include "engine/batching/engine.h"

namespace tandem {

Status Engine::load_adapter(const std::string& name, const std::string& path, bool in_place,
                            bool pinned) {
  // A pinned adapter is on the device before its name is served.
  AdapterStore::Prepare prepare;
  if (pinned || options_.adapter_mode == AdapterMode::cached) {
    prepare = [this](const AdapterLease& adapter) { return keep_on_device(adapter); };
  }
  Status status = adapters_->load(name, path, in_place, pinned, prepare);
  end_if_fatal(status);
  return status;
}

Status Engine::unload_adapter(const std::string& name) {
  return adapters_->unload(name);
}

bool Engine::has_adapter(const std::string& name) const {
  return adapters_->find(name) != nullptr;
}

std::vector<AdapterInfo> Engine::adapters() const {
  std::vector<AdapterInfo> result;
  for (const AdapterLease& lease : adapters_->list()) {
    AdapterInfo info;
    info.name = lease->name();
    info.path = lease->path();
    info.digest = lease->contents().digest;
    info.rank = lease->contents().max_rank;
    for (const Module module : lease->contents().modules) {
      info.modules.emplace_back(to_string(module));
    }
    info.bytes = lease->bytes();
    info.tier = tier_name(lease->residency());
    info.pinned = lease->pinned();
    info.loaded_unix = lease->loaded_unix();
    info.running = lease->running.load(std::memory_order_relaxed);
    info.waiting = lease->waiting.load(std::memory_order_relaxed);
    info.hits = lease->hits.load(std::memory_order_relaxed);
    info.cold_starts = lease->cold_starts.load(std::memory_order_relaxed);
    result.push_back(std::move(info));
  }
  return result;
}

EngineStats Engine::stats() const {
  const std::lock_guard lock(inbox_mutex_);
  EngineStats result = stats_;
  result.waiting += static_cast<std::int32_t>(inbox_.size());
  if (handoff_ == nullptr) return result;
  // Workers come and go while the engine has nothing to do, too.
  result.cpu_workers = handoff_->live_workers();
  for (const WorkerStatus& worker : handoff_->workers()) {
    result.worker_restarts += worker.restarts;
    result.worker_busy_s += worker.busy_s;
  }
  return result;
}

void Engine::drain() {
  const std::lock_guard lock(inbox_mutex_);
  draining_ = true;
}

bool Engine::ready() const {
  const std::lock_guard lock(inbox_mutex_);
  return !draining_;
}

Status Engine::failure() const {
  const std::lock_guard lock(inbox_mutex_);
  return failure_;
}

void Engine::end_if_fatal(const Status& status) {
  if (status.code() != StatusCode::fatal) return;
  {
    const std::lock_guard lock(inbox_mutex_);
    if (failure_.ok()) failure_ = status;
    draining_ = true;
    stopping_ = true;
  }
  inbox_changed_.notify_one();
}

void Engine::publish_stats() {
  counts_.waiting = static_cast<std::int32_t>(scheduler_.num_waiting());
  counts_.running = static_cast<std::int32_t>(scheduler_.num_running());
  counts_.pages_total = options_.num_pages;
  const PoolCounts pages = pool_.counts();
  counts_.pages_free = pages.free;
  counts_.pages_kv = pages.kv;
  counts_.pages_cached = pages.cached;
  counts_.pages_adapter = pages.adapter;
  counts_.prefix_queries = scheduler_.prefix_queries();
  counts_.prefix_hits = scheduler_.prefix_hits();
  counts_.preemptions = scheduler_.num_preemptions();
  const DeviceTierCounts adapters = device_tier_->counts();
  counts_.adapter_loads = adapters.loads;
  counts_.adapter_loaded_bytes = adapters.loaded_bytes;
  counts_.adapter_evictions = adapters.evictions;
  if (handoff_ != nullptr) {
    const HandoffCounts& handoff = handoff_->counts();
    counts_.handoff_steps = handoff.steps;
    counts_.handoff_rows = handoff.rows;
    counts_.handoff_cpu_layers = handoff.cpu_layers;
    counts_.handoff_gpu_layers = handoff.gpu_layers;
    counts_.handoff_voids = handoff.voids;
    counts_.handoff_planned_seconds = handoff.planned_s;
    counts_.handoff_actual_seconds = handoff.actual_s;
  }
  counts_.host_tier_bytes = adapters_->host_tier().capacity();
  counts_.host_tier_used = adapters_->host_tier().used();
  const std::lock_guard lock(inbox_mutex_);
  waiting_ = scheduler_.num_waiting();
  stats_ = counts_;
}

}  // namespace tandem
