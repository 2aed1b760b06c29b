#include "engine/batching/engine.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"
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

// Adapters lie where workers compute from them.
std::vector<int> host_tier_nodes(const EngineOptions& options) {
  std::vector<int> nodes;
  if (options.adapter_mode >= AdapterMode::cpu_assist) {
    for (const HandoffOptions::Group& group : options.handoff.groups) nodes.push_back(group.node);
  }
  return nodes.empty() ? std::vector{-1} : nodes;
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
                  max_logit_rows(options.max_num_seqs), max_history(options.max_model_len),
                  max_page_ids(options)},
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
    return error(
        StatusCode::resource_exhausted,
        "the page pool holds {} tokens, fewer than one sequence of max_model_len {}; raise "
        "pool_gb or lower max_model_len",
        room, options.max_model_len);
  }
  const PoolLayout layout = PoolLayout::of(config, dtype, options.page_tokens);
  TANDEM_ASSIGN(KvCache cache, KvCache::create(device, layout, options.num_pages));
  std::unique_ptr<Engine> engine(new Engine(options, layout, tokenizer, clock));
  engine->cache_ = std::move(cache);
  const std::int32_t samples = max_logit_rows(options.max_num_seqs);
  const ModelLimits limits{options.max_num_batched_tokens, samples, options.max_model_len,
                           options.max_lora_rank};
  TANDEM_ASSIGN(engine->model_, LlamaModel::load(config, weights, dtype, limits, device, progress));
  AdapterStoreOptions store;
  store.max_adapters = options.max_adapters;
  store.max_rank = options.max_lora_rank;
  store.host_tier_bytes = options.host_tier_bytes;
  store.host_tier_nodes = host_tier_nodes(options);
  TANDEM_ASSIGN(engine->adapters_, AdapterStore::create(device, config, dtype, store));
  TANDEM_TRY(engine->make_handoff(device, config, dtype));
  LoadSignals signals;
  if (engine->handoff_ != nullptr) {
    signals.words = options.adapter_mode == AdapterMode::cpu_assist ? LoadSignals::Words::whole
                                                                    : LoadSignals::Words::layers;
    signals.link_bytes_per_s = options.handoff.costs.link_bytes_per_s;
    signals.copy_s = options.handoff.costs.copy_s;
    signals.clock = &clock;
  }
  TANDEM_ASSIGN(engine->device_tier_,
                DeviceTier::create(device, config, dtype, options.max_lora_rank,
                                   std::min(options.max_device_adapters, options.max_adapters),
                                   engine->cache_, engine->pool_, signals));
  engine->make_gate();
  engine->adapters_->on_news([raw = engine.get()] {
    {
      const std::lock_guard lock(raw->inbox_mutex_);
      raw->adapter_news_ = true;
    }
    raw->inbox_changed_.notify_one();
  });
  const StepPipeline::Options steps{options.overlap, options.max_graph_batch, kMaxBiasesPerSequence,
                                    options.max_num_seqs, max_page_ids(options)};
  TANDEM_ASSIGN(engine->pipeline_,
                StepPipeline::create(steps, device, *engine->model_, engine->cache_,
                                     *engine->device_tier_, engine->handoff_.get(), clock));
  if (options.tune_at_start) TANDEM_TRY(engine->pipeline_->tune());
  if (options.record_at_start) TANDEM_TRY(engine->pipeline_->record_graphs(options.max_lora_rank));
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
  // Its thread may still have news for us.
  adapters_.reset();
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
    context->stats.adapter_tier = tier_name(context->adapter->residency());
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
    if (!failure_.ok()) {
      return error(StatusCode::unavailable, "the engine has ended: {}", failure_.message());
    }
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
      auto& count = context->stats.adapter_tier == tier_name(Residency::resident)
                        ? context->adapter->hits
                        : context->adapter->cold_starts;
      count.fetch_add(1, std::memory_order_relaxed);
      // Why it could not be read before is no answer to those who ask now.
      if (context->adapter->waiting.fetch_add(n, std::memory_order_relaxed) == 0) {
        (void)adapters_->take_read_failure(*context->adapter);
      }
    }
  }
  inbox_changed_.notify_one();
  return std::unique_ptr<Generation>(std::make_unique<GenerationHandle>(context->state));
}

}  // namespace tandem
