#include "engine/batching/engine_reporter.h"

#include <algorithm>
#include <chrono>

#include "base/check.h"
#include "engine/adapters/residency.h"
#include "scheduler/planning/costs/first_guess.h"

namespace tandem {
namespace {

constexpr auto kOld = std::chrono::milliseconds(5);

std::int32_t rank_of(const Sequence& sequence) {
  const AdapterLease& adapter = sequence.context().adapter;
  return adapter == nullptr ? 0 : adapter->contents().max_rank;
}

ModelSizes sizes_of(const ModelSpec& config, DType dtype) {
  const auto element = static_cast<std::int64_t>(size_of(dtype));
  std::int64_t kv = 0;
  std::int64_t inputs_and_outputs = 0;
  for (std::int64_t layer = 0; layer < config.num_layers(); ++layer) {
    kv += 2 * config.layer(layer).attention.kv_size();
    for (std::size_t m = 0; m < config.modules.size(); ++m) {
      const std::int64_t out = module_out(config, layer, m);
      if (out == 0 || !takes_offers(config.modules[m].site)) continue;
      inputs_and_outputs += module_in(config, layer, m) + out;
    }
  }
  return {.layers = config.num_layers(),
          .kv_per_token = kv * element,
          .adapter_per_rank = inputs_and_outputs * element};
}

}  // namespace

void add_waiting(const Sequence& sequence, EngineView& view) {
  const std::int32_t rank = rank_of(sequence);
  const std::int64_t tokens = sequence.left_to_compute();
  view.waiting.add(
      {.requests = 1, .tokens = tokens, .rank_tokens = tokens * rank, .rank_max = rank});
  view.waiting_rank_sum += rank;
  view.kv_free_tokens -= tokens;
}

ReclaimCosts reclaim_costs(const EngineView& view, const PoolShape& pool) {
  if (view.costs.prefill_token_s <= 0) return {};  // unknown
  return {.kv_page = view.costs.prefill_token_s * pool.page_tokens / pool.groups.count(),
          .adapter_byte = 1 / view.cold.link_bytes_per_s};
}

EngineView first_view(const EngineOptions& options, const PoolShape& pool, const ModelSpec& config,
                      DType dtype) {
  const ModelSizes sizes = sizes_of(config, dtype);
  const CostModel& costs = options.handoff.costs;
  const bool has_workers = hands_over(options.adapter_mode) && !options.handoff.groups.empty();
  EngineView view;
  view.costs = first_step_costs(costs, sizes);
  view.cold = first_cold_costs(costs, sizes, has_workers);
  view.prefix_cache = options.prefix_cache;
  view.max_requests = options.max_num_seqs;
  view.kv_tokens = pool.tokens_in(pool.num_pages);
  view.kv_free_tokens = view.kv_tokens;
  return view;
}

EngineReporter::EngineReporter(const EngineView& first, const PagePool& pool,
                               std::int64_t chunk_bytes)
    : pool_(&pool), chunk_bytes_(chunk_bytes), tracker_(first.costs), view_(first) {}

void EngineReporter::begins(const std::vector<ScheduledSequence>& scheduled, TimePoint now) {
  TANDEM_CHECK(num_steps_ < steps_.size());
  Step step;
  for (const auto& [sequence, num_tokens] : scheduled) {
    const std::int32_t rank = rank_of(*sequence);
    if (num_tokens == 1 && sequence->left_to_compute() == 1) {
      step.decode.add({.requests = 1,
                       .rank_sum = rank,
                       .rank_max = rank,
                       .context_tokens = sequence->computed() + 1});
    } else {
      step.prefill.add({.requests = 1,
                        .tokens = num_tokens,
                        .rank_tokens = std::int64_t{num_tokens} * rank,
                        .rank_max = rank});
    }
    const AdapterLease& adapter = sequence->context().adapter;
    if (adapter != nullptr && adapter->residency() != Residency::resident) step.teaches = false;
  }
  if (num_steps_ == 0) begun_ = now;
  steps_[num_steps_++] = step;
}

void EngineReporter::ends(const StepResult& step, TimePoint now) {
  if (num_steps_ == 0) return;
  const Step& oldest = steps_.front();
  if (oldest.teaches && step.status.ok() && step.timed_out.empty()) {
    (void)tracker_.observe(oldest.decode, oldest.prefill, step.seconds);
  }
  std::move(steps_.begin() + 1, steps_.end(), steps_.begin());
  --num_steps_;
  begun_ = now;
}

bool EngineReporter::is_due(TimePoint now, bool rests) const {
  return rests || !looked_ || now - *looked_ >= kOld;
}

const EngineView& EngineReporter::look(const ContinuousBatcher& scheduler,
                                       const DeviceTier& adapters, TimePoint now) {
  looked_ = now;
  const std::int64_t available = pool_->available_pages();
  view_.costs = tracker_.costs();
  view_.kv_free_tokens = pool_->shape().tokens_in(available);
  view_.adapter_free_bytes =
      (available * pool_->shape().chunks_per_page + pool_->counts().spare_chunks) * chunk_bytes_;
  view_.link_queue_bytes = adapters.counts().loading_bytes;
  view_.running = {};
  for (const auto& sequence : scheduler.running()) {
    const std::int32_t rank = rank_of(*sequence);
    view_.running.add({.requests = 1,
                       .rank_sum = rank,
                       .rank_max = rank,
                       .context_tokens = sequence->tokens.size()});
  }
  view_.waiting = {};
  view_.waiting_rank_sum = 0;
  for (const auto& sequence : scheduler.waiting()) add_waiting(*sequence, view_);
  return view_;
}

std::optional<TimePoint> EngineReporter::step_ends() const {
  if (num_steps_ == 0) return std::nullopt;
  const double takes_s =
      tracker_.costs().step_time_s(steps_.front().decode, steps_.front().prefill);
  return begun_ + duration_of(takes_s);
}

}  // namespace tandem
