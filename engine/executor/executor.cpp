#include "engine/executor/executor.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log/log.h"
#include "base/status_copy.h"
#include "scheduler/planning/costs/shard_costs.h"

namespace tandem {

Result<std::unique_ptr<Executor>> Executor::create(const ExecutorOptions& options,
                                                   const ModelSpec& config,
                                                   const WeightSource& weights, DType dtype,
                                                   std::span<Device* const> devices, PagePool& pool,
                                                   const HostTier& host, const Clock& clock,
                                                   const LoadProgress& progress) {
  TANDEM_CHECK(!devices.empty());
  std::unique_ptr<Executor> executor(new Executor());
  TANDEM_TRY(
      executor->make_ranks(options, config, weights, dtype, devices, pool.shape(), progress));
  TANDEM_TRY(executor->make_handoff(options, config, host, clock));
  TANDEM_TRY(executor->make_tier(options, config, pool, clock));
  TANDEM_TRY(executor->make_pipelines(options, clock));
  return executor;
}

// Steps must end before the objects that they use.
Executor::~Executor() {
  for (Rank& rank : ranks_) {
    if (rank.pipeline != nullptr) (void)rank.pipeline->wait_for_all();
  }
  for (Rank& rank : ranks_) rank.pipeline.reset();
  tier_.reset();
}

Status Executor::make_ranks(const ExecutorOptions& options, const ModelSpec& config,
                            const WeightSource& weights, DType dtype,
                            std::span<Device* const> devices, const PoolShape& pool,
                            const LoadProgress& progress) {
  const auto size = static_cast<std::int32_t>(devices.size());
  TANDEM_TRY(check_shards(config, size));
  std::vector<std::unique_ptr<Communicator>> ends(devices.size());
  if (size > 1) {
    TANDEM_ASSIGN(ends, devices.front()->connect(devices));
    team_ = std::make_unique<ThreadTeam>(size - 1, "rank");
    if (team_->num_threads() != devices.size()) {
      return error(StatusCode::resource_exhausted, "no thread for each of {} devices", size);
    }
  }
  const PoolLayout layout = PoolLayout::of(shape_of_shard(config, size), dtype, pool.page_tokens);
  std::size_t total = 0;
  for (std::int32_t rank = 0; rank < size; ++rank) {
    total += ModelWeights::bytes_needed(config, {rank, size}, dtype, weights, *devices.front());
  }
  std::size_t loaded = 0;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    Rank& rank = ranks_.emplace_back();
    rank.device = devices[i];
    rank.communicator = std::move(ends[i]);
    TANDEM_ASSIGN(rank.cache, KvCache::create(*rank.device, layout, pool.num_pages));
    LoadProgress of_all;
    if (progress) of_all = [&](std::size_t done, std::size_t) { progress(loaded + done, total); };
    TANDEM_ASSIGN(rank.model, Model::load(config, weights, dtype, options.model, *rank.device,
                                          of_all, rank.communicator.get()));
    loaded += rank.model->weight_bytes();
  }
  return {};
}

// Without workers every mode waits for the weights like `pipelined`: the engine works, and logs a
// warning once.
Status Executor::make_handoff(const ExecutorOptions& options, const ModelSpec& config,
                              const HostTier& host, const Clock& clock) {
  if (options.handoff.groups.empty()) return {};
  if (!host.is_shared()) return {};  // the log has the reason
  std::vector<Handoff::Rank> ranks;
  for (const Rank& rank : ranks_) ranks.push_back({rank.device, rank.communicator.get()});
  Result<std::unique_ptr<Handoff>> made =
      Handoff::create(ranks, config, ranks_.front().model->dtype(), options.model.max_lora_rank,
                      options.whole_loads, options.handoff, host, clock);
  if (!made) {
    if (made.status().code() == StatusCode::fatal) return made.status();
    log::warning("no CPU workers, adapter_mode works as pipelined: {}", made.status().message());
    return {};
  }
  handoff_ = std::move(made).value();
  return {};
}

Status Executor::make_tier(const ExecutorOptions& options, const ModelSpec& config, PagePool& pool,
                           const Clock& clock) {
  LoadSignals signals;
  signals.clock = &clock;
  signals.cold_starts = options.cold_starts;
  if (handoff_ != nullptr) {
    signals.words = options.whole_loads ? LoadSignals::Words::whole : LoadSignals::Words::layers;
    signals.link_bytes_per_s = options.handoff.costs.link_bytes_per_s;
    signals.copy_s = options.handoff.costs.copy_s;
  }
  std::vector<TierDevice> devices;
  for (const Rank& rank : ranks_) devices.push_back({rank.device, &rank.cache});
  TANDEM_ASSIGN(tier_, DeviceTier::create(devices, config, ranks_.front().model->dtype(),
                                          options.model.max_lora_rank, options.max_device_adapters,
                                          pool, signals));
  return {};
}

Status Executor::make_pipelines(const ExecutorOptions& options, const Clock& clock) {
  StepPipeline::Options steps{options.overlap, options.just_in_time, options.max_graph_batch,
                              options.step, ranks_.size() > 1};
  steps.limits.max_sequences = std::min(steps.limits.max_sequences, options.model.max_rows);
  steps.max_graph_batch = std::min(steps.max_graph_batch, steps.limits.max_sequences);
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    TANDEM_ASSIGN(rank.pipeline, StepPipeline::create(steps, *rank.device, *rank.model, rank.cache,
                                                      tier_->lane(i), handoff_.get(), clock));
    // Several CUDA ranks tune even if no option asks for it: a kernel that is loaded at its first
    // use may wait for running kernels, and the ranks' kernels wait for each other.
    if (options.tune_at_start || (ranks_.size() > 1 && rank.device->info().is_cuda)) {
      TANDEM_TRY(rank.pipeline->tune());
    }
  }
  use(options.lora_sharding);
  if (!options.record_at_start) return {};
  std::vector<Status> recorded(ranks_.size());
  on_every_rank([&](Rank& rank) {
    recorded[static_cast<std::size_t>(&rank - ranks_.data())] =
        rank.pipeline->record_graphs(options.model.max_lora_rank);
  });
  for (Status& status : recorded) TANDEM_TRY(std::move(status));
  return {};
}

void Executor::use(LoraSharding sharding) {
  const Model& shard = model();
  const bool on_gpu = ranks_.front().device->info().is_cuda;
  const LoraHalves halves({sharding, on_gpu ? ShardCosts() : shard_costs_of_host()},
                          {shard.shard().size, shard.spec().hidden_size, shard.dtype(),
                           shard.limits().max_samples, shard.spec().modules});
  for (Rank& rank : ranks_) rank.pipeline->use(halves);
}

void Executor::on_every_rank(const std::function<void(Rank&)>& body) {
  if (team_ == nullptr) {
    body(ranks_.front());
    return;
  }
  team_->run(ranks_.size(), [&](std::size_t i, std::size_t) {
    try {
      body(ranks_[i]);
    } catch (...) {
      ranks_[i].communicator->leave("what it was to enqueue");
      throw;
    }
  });
}

void Executor::enqueue(const StepPlan& plan) {
  tier_->step_begins();
  const HandoffStep* const first = lead().plan(plan);
  on_every_rank([&](Rank& rank) {
    if (&rank != ranks_.data()) (void)rank.pipeline->plan(plan, first);
    if (!rank.pipeline->launch(plan) && rank.communicator != nullptr) {
      rank.communicator->leave("its step was enqueued");
    }
  });
  tier_->step_ends();
}

void Executor::sample() {
  const std::span<const std::uint32_t> given = lead().masks();
  for (Rank& rank : ranks_) {
    if (&rank != ranks_.data()) std::ranges::copy(given, rank.pipeline->masks().begin());
    rank.pipeline->sample();
  }
}

// Makes a failed rank leave, so that operations of other ranks that wait for it fail, too.
void Executor::tell_of_failures() {
  if (ranks_.size() == 1) return;
  for (Rank& rank : ranks_) {
    if (rank.pipeline->failed()) rank.communicator->leave("the end of its step");
  }
}

bool Executor::oldest_has_ended() {
  tell_of_failures();
  return std::ranges::all_of(ranks_, [](Rank& rank) { return rank.pipeline->oldest_has_ended(); });
}

// A step that failed on one device has failed on all, as have the steps behind it.
StepResult Executor::wait() {
  if (ranks_.size() == 1) return lead().wait();
  tell_of_failures();
  OtherRanks others;
  for (std::size_t i = 1; i < ranks_.size(); ++i) {
    note_failure(ranks_[i].pipeline->wait_and_tell(others));
  }
  others.failed |= !failure_.ok();
  StepResult result = lead().wait(others);
  note_failure(copy_of(result.status));
  if (handoff_ != nullptr) {
    const double factor = handoff_->learner().costs().factors.link;
    for (std::size_t i = 1; i < ranks_.size(); ++i) {
      tier_->loads().on(i).link().set_factor(factor);
    }
  }
  if (failure_.ok()) return result;
  result.samples = {};
  result.states = {};
  result.status = failure_.code() == StatusCode::cancelled  // the cause is unknown
                      ? Status(StatusCode::internal, copy_of(failure_).message())
                      : copy_of(failure_);
  if (empty()) {
    meet_again();
    failure_ = Status();
  }
  return result;
}

// Keeps the first failure that is no consequence of another rank's (Communicator::leave); a fatal
// failure replaces it.
void Executor::note_failure(Status status) {
  if (status.ok() || failure_.code() == StatusCode::fatal) return;
  const bool is_cause = !failure_.ok() && failure_.code() != StatusCode::cancelled;
  if (is_cause && status.code() != StatusCode::fatal) return;
  failure_ = std::move(status);
}

void Executor::meet_again() {
  for (Rank& rank : ranks_) {
    if (rank.communicator != nullptr) rank.communicator->reset();
  }
}

Status Executor::abandon() noexcept {
  tier_->loads().await_readings();
  // Operations that wait for a rank whose step was never enqueued stop waiting.
  if (ranks_.size() > 1) {
    for (Rank& rank : ranks_) rank.communicator->leave("what was given up");
  }
  Status lost;
  for (Rank& rank : ranks_) {
    Status steps = rank.pipeline->wait_for_all();
    if (steps.code() == StatusCode::fatal) lost = std::move(steps);
  }
  for (Rank& rank : ranks_) rank.pipeline->drop_all();
  Status loads = tier_->abandon();
  meet_again();
  failure_ = Status();
  return lost.ok() ? std::move(loads) : std::move(lost);
}

void Executor::forget_counts() {
  for (Rank& rank : ranks_) rank.pipeline->times().forget();
  tier_->forget_counts();
  if (handoff_ != nullptr) handoff_->forget_counts();
}

}  // namespace tandem
