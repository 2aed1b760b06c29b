#include "engine/executor/executor.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace tandem {

Result<std::unique_ptr<Executor>> Executor::create(const ExecutorOptions& options,
                                                   const ModelConfig& config,
                                                   const WeightSource& weights, DType dtype,
                                                   Device& device, PagePool& pool,
                                                   const HostTier& host, const Clock& clock,
                                                   const LoadProgress& progress) {
  std::unique_ptr<Executor> executor(new Executor());
  const PoolLayout layout = PoolLayout::of(config, dtype, pool.shape().page_tokens);
  TANDEM_ASSIGN(executor->cache_, KvCache::create(device, layout, pool.shape().num_pages));
  TANDEM_ASSIGN(executor->model_,
                LlamaModel::load(config, weights, dtype, options.model, device, progress));
  TANDEM_TRY(executor->make_handoff(options, device, host, clock));
  TANDEM_TRY(executor->make_tier(options, device, pool, clock));
  StepPipeline::Options steps{options.overlap, options.just_in_time, options.max_graph_batch,
                              options.step};
  steps.limits.max_sequences = std::min(steps.limits.max_sequences, options.model.max_rows);
  steps.max_graph_batch = std::min(steps.max_graph_batch, steps.limits.max_sequences);
  TANDEM_ASSIGN(executor->pipeline_,
                StepPipeline::create(steps, device, *executor->model_, executor->cache_,
                                     *executor->tier_, executor->handoff_.get(), clock));
  if (options.tune_at_start) TANDEM_TRY(executor->pipeline_->tune());
  if (options.record_at_start) {
    TANDEM_TRY(executor->pipeline_->record_graphs(options.model.max_lora_rank));
  }
  return executor;
}

Executor::~Executor() = default;

Status Executor::abandon() noexcept {
  tier_->loads().await_readings();  // steps may wait for them
  Status steps = pipeline_->abandon();
  Status loads = tier_->abandon();
  return steps.code() == StatusCode::fatal ? std::move(steps) : std::move(loads);
}

void Executor::forget_counts() {
  pipeline_->forget_counts();
  tier_->forget_counts();
  if (handoff_ != nullptr) handoff_->forget_counts();
}

// Without workers every mode waits for the weights, as `pipelined` does: the engine works, and says
// so once.
Status Executor::make_handoff(const ExecutorOptions& options, Device& device, const HostTier& host,
                              const Clock& clock) {
  if (options.handoff.groups.empty()) return {};
  if (!host.is_shared()) return {};  // as the log says
  Result<std::unique_ptr<Handoff>> made =
      Handoff::create(device, model_->config(), model_->dtype(), options.model.max_lora_rank,
                      options.whole_loads, options.handoff, host, clock);
  if (!made) {
    if (made.status().code() == StatusCode::fatal) return made.status();
    log::warning("no CPU workers, adapter_mode works as pipelined: {}", made.status().message());
    return {};
  }
  handoff_ = std::move(made).value();
  return {};
}

Status Executor::make_tier(const ExecutorOptions& options, Device& device, PagePool& pool,
                           const Clock& clock) {
  LoadSignals signals;
  signals.clock = &clock;
  signals.cold_starts = options.cold_starts;
  if (handoff_ != nullptr) {
    signals.words = options.whole_loads ? LoadSignals::Words::whole : LoadSignals::Words::layers;
    signals.link_bytes_per_s = options.handoff.costs.link_bytes_per_s;
    signals.copy_s = options.handoff.costs.copy_s;
  }
  TANDEM_ASSIGN(tier_, DeviceTier::create(device, model_->config(), model_->dtype(),
                                          options.model.max_lora_rank, options.max_device_adapters,
                                          cache_, pool, signals));
  return {};
}

}  // namespace tandem
