#include "engine/batching/engine.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/log.h"
#include "engine/batching/sampling_rows.h"

namespace tandem {

namespace {

// Of all sequences of a step. They share pages, so that it may be more than there are; but not
// without end, as the room is allocated.
std::int32_t max_page_ids(const EngineOptions& options) {
  const std::int64_t longest =
      (options.max_model_len + options.page_tokens - 1) / options.page_tokens;
  const std::int64_t room = std::max<std::int64_t>(options.num_pages, 1 << 20);
  return static_cast<std::int32_t>(std::min(longest * options.max_num_seqs, room));
}

}  // namespace

Engine::Engine(const EngineOptions& options, const PoolLayout& layout, const Tokenizer& tokenizer,
               const Clock& clock)
    : options_(options),
      tokenizer_(&tokenizer),
      clock_(&clock),
      pool_(options.num_pages, options.page_tokens, layout.chunks_per_page),
      prefixes_(options.prefix_cache ? std::make_unique<PrefixCache>(pool_) : nullptr),
      scheduler_({options.max_num_seqs, options.max_num_batched_tokens, options.max_prefill_chunk,
                  max_logit_rows(options.max_num_seqs), max_page_ids(options)},
                 pool_, prefixes_.get()),
      seeds_(std::random_device{}()) {
  stats_.pages_total = options.num_pages;
  stats_.pages_free = options.num_pages;
}

Result<std::unique_ptr<Engine>> Engine::create(const EngineOptions& options,
                                               const ModelConfig& config,
                                               const WeightSource& weights, DType dtype,
                                               Device& device, const Tokenizer& tokenizer,
                                               const Clock& clock, const LoadProgress& progress) {
  TANDEM_CHECK(options.num_pages > 0 && options.page_tokens > 0);
  if (options.max_model_len <= 0 || options.max_num_seqs <= 0 ||
      options.max_num_batched_tokens <= 0) {
    return invalid("max_model_len, max_num_seqs and max_num_batched_tokens must be positive");
  }
  const std::int64_t room = std::int64_t{options.num_pages} * options.page_tokens;
  if (room < options.max_model_len) {
    return error(StatusCode::resource_exhausted,
                 "the KV cache holds {} tokens, fewer than one sequence of max_model_len {}; raise "
                 "kv_cache_gb or lower max_model_len",
                 room, options.max_model_len);
  }
  const PoolLayout layout = PoolLayout::of(config, dtype, options.page_tokens);
  std::unique_ptr<Engine> engine(new Engine(options, layout, tokenizer, clock));
  const std::int32_t samples = max_logit_rows(options.max_num_seqs);
  const ModelLimits limits{options.max_num_batched_tokens, samples, options.max_model_len,
                           options.max_lora_rank};
  TANDEM_ASSIGN(engine->cache_, KvCache::create(device, layout, options.num_pages));
  TANDEM_ASSIGN(engine->model_, LlamaModel::load(config, weights, dtype, limits, device, progress));
  TANDEM_ASSIGN(engine->adapters_, AdapterStore::create(device, config, dtype, options.max_adapters,
                                                        options.max_lora_rank));
  TANDEM_ASSIGN(engine->stream_, device.create_stream("compute"));
  const StepLimits step_limits{options.max_num_batched_tokens,
                               std::min(options.max_num_seqs, options.max_num_batched_tokens),
                               samples,
                               max_page_ids(options),
                               room + options.max_num_seqs,
                               options.max_num_seqs * kMaxBiasesPerSequence};
  TANDEM_ASSIGN(StepBatch batch, StepBatch::create(device, step_limits));
  engine->batch_ = std::make_unique<StepBatch>(std::move(batch));
  const std::size_t sampled_bytes = static_cast<std::size_t>(samples) * sizeof(SampledToken);
  TANDEM_ASSIGN(engine->sampled_device_, device.allocate(sampled_bytes, "sampled tokens"));
  TANDEM_ASSIGN(engine->sampled_host_, device.allocate_pinned(sampled_bytes, "sampled tokens"));
  engine->thread_ = std::thread([raw = engine.get()] { raw->run(); });
  return engine;
}

Engine::~Engine() {
  {
    const std::lock_guard lock(inbox_mutex_);
    stopping_ = true;
    draining_ = true;
  }
  inbox_changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

Status Engine::check(const GenerationRequest& request) const {
  const std::int64_t vocab = model_->config().vocab_size;
  if (request.prompt.empty()) return invalid("the prompt is empty: it needs at least one token");
  for (const TokenId id : request.prompt) {
    if (id < 0 || id >= vocab)
      return invalid("prompt: token id {} is not in 0 .. {}", id, vocab - 1);
  }
  const auto length = static_cast<std::int64_t>(request.prompt.size());
  if (length + std::min(request.max_tokens, 1) > options_.max_model_len) {
    return invalid("the prompt has {} tokens and the context holds {}: no room for an answer",
                   length, options_.max_model_len);
  }
  if (request.n < 1) return invalid("n must be 1 or more");
  if (request.n > options_.max_queue) {
    return invalid("n is {}, but only {} continuations may wait (max_queue); ask for fewer",
                   request.n, options_.max_queue);
  }
  if (request.max_tokens < 0) return invalid("max_tokens must be 0 or more");
  return check_sampling(request, vocab);
}

Result<std::unique_ptr<Generation>> Engine::submit(GenerationRequest request) {
  TANDEM_TRY(check(request));
  auto context = std::make_shared<RequestContext>();
  if (!request.adapter.empty()) {
    context->adapter = adapters_->find(request.adapter);
    if (context->adapter == nullptr) {
      return error(StatusCode::not_found, "adapter '{}' is not loaded", request.adapter);
    }
    context->stats.adapter_tier = "device";
  }
  const std::int64_t room =
      options_.max_model_len - static_cast<std::int64_t>(request.prompt.size());
  request.max_tokens = static_cast<std::int32_t>(std::min<std::int64_t>(request.max_tokens, room));
  const std::int32_t n = request.n;
  context->stats.prompt_tokens = static_cast<std::int32_t>(request.prompt.size());
  context->submitted = clock_->now();
  context->state = std::make_shared<GenerationState>(n);
  context->request = std::move(request);
  {
    const std::lock_guard lock(inbox_mutex_);
    if (draining_) return Status(StatusCode::unavailable, "the server is shutting down");
    if (inbox_.size() + waiting_ + static_cast<std::size_t>(n) >
        static_cast<std::size_t>(options_.max_queue)) {
      return error(StatusCode::resource_exhausted,
                   "the queue is full: {} continuations wait (max_queue {})",
                   inbox_.size() + waiting_, options_.max_queue);
    }
    context->seed = context->request.sampling.seed.value_or(seeds_());
    for (std::int32_t i = 0; i < n; ++i) {
      const GenerationRequest& r = context->request;
      inbox_.push_back(std::make_unique<Sequence>(
          context, i, next_arrival_++, pool_,
          OutputText(*tokenizer_, r.skip_special_tokens, r.stop, r.include_stop)));
    }
    if (context->adapter != nullptr) {
      context->adapter->hits.fetch_add(1, std::memory_order_relaxed);
      context->adapter->waiting.fetch_add(n, std::memory_order_relaxed);
    }
  }
  inbox_changed_.notify_one();
  return std::unique_ptr<Generation>(std::make_unique<GenerationHandle>(context->state));
}

void Engine::run() {
  while (take_inbox()) {
    drop_cancelled();
    step();
  }
  for (Sequence* sequence : scheduler_.all()) {
    OutputDelta last;
    last.finish = FinishReason::cancelled;
    finish(*sequence, std::move(last));
  }
  deliver();
}

bool Engine::take_inbox() {
  std::unique_lock lock(inbox_mutex_);
  const bool idle_engine = scheduler_.num_running() + scheduler_.num_waiting() == 0;
  // No deadline is needed here: nothing is under way, and only a submission or the end can change
  // that.
  if (idle_engine) inbox_changed_.wait(lock, [this] { return stopping_ || !inbox_.empty(); });
  for (auto& sequence : inbox_) scheduler_.add(std::move(sequence));
  inbox_.clear();
  waiting_ = scheduler_.num_waiting();
  return !stopping_;
}

void Engine::drop_cancelled() {
  for (Sequence* sequence : scheduler_.all()) {
    if (!sequence->context->state->cancelled()) continue;
    OutputDelta last;
    last.finish = FinishReason::cancelled;
    finish(*sequence, std::move(last));
  }
}

void Engine::step() {
  const TimePoint begin = clock_->now();
  const std::vector<ScheduledSequence> plan = scheduler_.plan();
  if (!plan.empty()) {
    note_scheduled(plan, begin);
    fill_batch(plan);
    if (const Status status = execute(); !status) {
      log::error("a step failed, its requests end: {}", status.message());
      for (const ScheduledSequence& each : plan) {
        OutputDelta last;
        last.finish = FinishReason::failed;
        last.error = status;
        finish(*each.sequence, std::move(last));
      }
      // Their pages were offered when the step was planned.
      if (prefixes_ != nullptr) prefixes_->drop_idle();
    } else {
      digest(plan);
    }
  }
  publish_stats(plan.empty() ? 0 : seconds_between(begin, clock_->now()));
  deliver();
}

void Engine::deliver() {
  for (News& news : outbox_) news.state->push(std::move(news.delta), news.stats);
  outbox_.clear();
}

void Engine::note_scheduled(const std::vector<ScheduledSequence>& plan, TimePoint now) {
  for (const auto& [sequence, num_tokens] : plan) {
    RequestContext& context = *sequence->context;
    const std::int64_t prompt_left = sequence->prompt_len() - sequence->computed;
    prompt_tokens_ +=
        static_cast<std::uint64_t>(std::clamp<std::int64_t>(prompt_left, 0, num_tokens));
    if (!context.first_scheduled) {
      context.first_scheduled = now;
      context.stats.queue_s = seconds_between(context.submitted, now);
    }
    if (!sequence->admitted && context.adapter != nullptr) {
      context.adapter->waiting.fetch_sub(1, std::memory_order_relaxed);
      context.adapter->running.fetch_add(1, std::memory_order_relaxed);
    }
    sequence->admitted = true;
  }
}

void Engine::fill_batch(const std::vector<ScheduledSequence>& plan) {
  batch_->clear();
  for (const auto& [sequence, num_tokens] : plan) {
    const std::span<const TokenId> tokens(sequence->tokens.data() + sequence->computed,
                                          static_cast<std::size_t>(num_tokens));
    const AdapterLease& adapter = sequence->context->adapter;
    const std::int32_t first_row = batch_->add_sequence(
        tokens, sequence->computed, sequence->table.pages(), options_.page_tokens,
        adapter == nullptr ? AdapterSlot{} : adapter->slot());
    add_sampling_rows(*sequence, num_tokens, first_row, model_->config().eos_token_ids, *batch_);
  }
}

Status Engine::execute() {
  const StepInput input = batch_->upload(*stream_);
  model_->forward(*stream_, input, cache_, adapters_->table());
  auto* sampled = reinterpret_cast<SampledToken*>(sampled_device_.data());
  model_->sample(*stream_, input, sampled);
  if (input.num_samples > 0) {
    stream_->copy_to_host(sampled_host_.data(), sampled,
                          static_cast<std::size_t>(input.num_samples) * sizeof(SampledToken));
  }
  return stream_->synchronize();
}

void Engine::digest(const std::vector<ScheduledSequence>& plan) {
  const auto* samples = reinterpret_cast<const SampledToken*>(sampled_host_.data());
  for (const ScheduledSequence& scheduled : plan) digest_sequence(scheduled, samples);
}

void Engine::digest_sequence(const ScheduledSequence& scheduled, const SampledToken*& samples) {
  Sequence& sequence = *scheduled.sequence;
  RequestContext& context = *sequence.context;
  const std::int64_t first = sequence.computed;
  sequence.computed += scheduled.num_tokens;
  if (sequence.wants_prompt_logprobs()) {
    const std::int64_t end = std::min(sequence.computed, sequence.prompt_len() - 1);
    for (std::int64_t row = first_prompt_logprob_row(sequence, first); row < end; ++row) {
      context.prompt_logprobs.push_back(to_token_logprob(*samples++));
    }
  }
  if (sequence.left_to_compute() > 0) return;
  accept_token(sequence, *samples++);
}

void Engine::accept_token(Sequence& sequence, const SampledToken& sampled) {
  RequestContext& context = *sequence.context;
  const GenerationRequest& request = context.request;
  OutputDelta delta;
  delta.index = sequence.index;
  if (sequence.output_len() == 0 && sequence.index == 0) {
    delta.prompt_logprobs = std::move(context.prompt_logprobs);
  }
  if (request.max_tokens == 0) {  // only the prompt was asked about
    delta.finish = FinishReason::length;
    finish(sequence, std::move(delta));
    return;
  }
  if (!context.first_token) {
    context.first_token = clock_->now();
    context.stats.ttft_s = seconds_between(context.submitted, *context.first_token);
  }
  ++context.stats.completion_tokens;
  ++generation_tokens_;
  const bool stops_count = sequence.output_len() + 1 >= request.min_tokens;
  if (stops_count && is_end_token(sampled.token, request, model_->config().eos_token_ids)) {
    delta.text = sequence.text.flush();
    delta.finish = FinishReason::stop;
    if (std::find(request.stop_token_ids.begin(), request.stop_token_ids.end(), sampled.token) !=
        request.stop_token_ids.end()) {
      delta.stop_reason = std::to_string(sampled.token);
    }
    finish(sequence, std::move(delta));
    return;
  }
  sequence.tokens.push_back(sampled.token);
  delta.tokens.push_back(sampled.token);
  if (request.num_logprobs >= 0) delta.logprobs.push_back(to_token_logprob(sampled));
  delta.text = sequence.text.push(sampled.token, stops_count);
  if (const auto& stop = sequence.text.stopped_by()) {
    delta.finish = FinishReason::stop;
    delta.stop_reason = *stop;
  } else if (sequence.output_len() >= request.max_tokens) {
    delta.text += sequence.text.flush();
    delta.finish = FinishReason::length;
  }
  if (delta.finish != FinishReason::none) {
    finish(sequence, std::move(delta));
  } else {
    context.stats.total_s = seconds_between(context.submitted, clock_->now());
    outbox_.push_back({context.state, std::move(delta), context.stats});
  }
}

void Engine::finish(Sequence& sequence, OutputDelta delta) {
  delta.index = sequence.index;
  const std::unique_ptr<Sequence> owned = scheduler_.remove(&sequence);
  RequestContext& context = *owned->context;
  if (context.adapter != nullptr) {
    auto& count = owned->admitted ? context.adapter->running : context.adapter->waiting;
    count.fetch_sub(1, std::memory_order_relaxed);
  }
  context.stats.total_s = seconds_between(context.submitted, clock_->now());
  outbox_.push_back({context.state, std::move(delta), context.stats});
}

}  // namespace tandem
