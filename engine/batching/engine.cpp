#include "engine/batching/engine.h"

#include <pthread.h>

#include <algorithm>
#include <functional>
#include <future>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/log/log.h"
#include "base/threads/thread_cpus.h"
#include "engine/batching/engine_reporter.h"
#include "engine/batching/line/invocation.h"
#include "engine/batching/request_limits.h"
#include "engine/batching/statistics.h"
#include "engine/continuation/resumption.h"
#include "engine/executor/calibration.h"

namespace tandem {

namespace {

// Page ids of all sequences of a step, of a group of layers. They share pages, so there may be more
// ids than pages, but there is a limit, as memory is allocated for them.
std::int32_t max_page_ids(const EngineOptions& options) {
  const std::int64_t longest =
      (options.max_model_len + options.page_tokens - 1) / options.page_tokens;
  const std::int64_t room = std::max<std::int64_t>({longest, options.num_pages, 1 << 20});
  return static_cast<std::int32_t>(std::min(longest * options.max_num_seqs, room));
}

// The cores for the engine's thread beside CPU workers. On a worker's core that worker would wait
// for the engine, and the other workers for it; on a reader's core the engine would wait. Empty:
// any core.
std::vector<int> own_cores(const HandoffOptions& handoff) {
  const std::vector<int>& readers = handoff.readers.cpus;
  std::vector<int> cpus = handoff.engine_cpus;
  std::erase_if(cpus, [&](int cpu) { return std::ranges::find(readers, cpu) != readers.end(); });
  // Without cores for readers, other engines may choose the same cores. On a single core the thread
  // would wait for any other thread of the engine that the kernel runs there.
  if (readers.empty() || cpus.size() < 2) return {};
  return cpus;
}

// Runs `calibrate` on a thread that is pinned like the engine thread.
Status calibrate_on(std::span<const int> cpus, const std::function<Status()>& calibrate) {
  auto done = std::async(std::launch::async, [&] {
    if (!cpus.empty()) pin_this_thread(cpus, "the thread that calibrates");
    return calibrate();
  });
  return done.get();
}

BatchLimits batch_limits(const EngineOptions& options, const ModelSpec& spec) {
  return {options.max_num_seqs,
          options.max_num_batched_tokens,
          options.max_prefill_chunk,
          max_logit_rows(options.max_num_seqs),
          max_history(options.max_model_len),
          max_page_ids(options),
          spec.rotary_lengths()};
}

ExecutorOptions executor_options(const EngineOptions& options, const KvGroups& groups,
                                 ColdStartLog* cold_starts) {
  const std::int32_t samples = max_logit_rows(options.max_num_seqs);
  constexpr std::int32_t kAlignedLogits = 8;  // rows that vector loads can read
  ExecutorOptions result;
  result.model = {
      options.max_num_batched_tokens, samples, options.max_model_len, options.max_lora_rank,
      (options.max_added_tokens + kAlignedLogits - 1) / kAlignedLogits * kAlignedLogits};
  result.step = {options.max_num_batched_tokens,
                 options.max_num_seqs,
                 samples,
                 max_page_ids(options),
                 max_history(options.max_model_len),
                 options.max_num_seqs * kMaxBiasesPerSequence};
  result.step.page_groups = groups.count();
  result.max_device_adapters = std::min(options.max_device_adapters, options.max_adapters);
  result.overlap = options.overlap;
  result.just_in_time = options.just_in_time;
  result.max_graph_batch = options.max_graph_batch;
  result.record_at_start = options.record_at_start;
  result.tune_at_start = options.tune_at_start;
  result.lora_sharding = options.lora_sharding;
  if (hands_over(options.adapter_mode)) result.handoff = options.handoff;
  result.handoff.cold_starts = cold_starts;
  result.cold_starts = cold_starts;
  result.whole_loads = hands_over_whole_loads(options.adapter_mode);
  return result;
}

AdapterStoreOptions store_options(const EngineOptions& options, std::int32_t num_devices,
                                  const Tokenizer& tokenizer, ColdStartLog* cold_starts) {
  AdapterStoreOptions result;
  result.tokenizer = &tokenizer;
  result.num_devices = num_devices;
  result.max_adapters = options.max_adapters;
  result.max_rank = options.max_lora_rank;
  result.max_added_tokens = options.max_added_tokens;
  result.host_tier_bytes = options.host_tier_bytes;
  result.links = options.adapter_links;
  result.base_names = options.base_names;
  result.cold_starts = cold_starts;
  if (!hands_over(options.adapter_mode) || options.handoff.groups.empty()) return result;
  result.readers = options.handoff.readers;
  // Adapters are on the nodes of the workers that compute them.
  result.host_tier_nodes.clear();
  for (const HandoffOptions::Group& group : options.handoff.groups) {
    result.host_tier_nodes.push_back(group.node);
  }
  return result;
}

RecordedSettings recorded_settings(const EngineOptions& options, const KvGroups& groups,
                                   const ModelSpec& config, DType dtype) {
  const ExecutorOptions executor = executor_options(options, groups, nullptr);
  RecordedSettings settings;
  settings.source = options.recording.source;
  settings.dtype = dtype;
  settings.hidden_size = config.hidden_size;
  settings.num_layers = config.num_layers();
  settings.vocab_size = config.vocab_size;
  settings.model = executor.model;
  settings.step = executor.step;
  settings.num_pages = options.num_pages;
  settings.page_tokens = options.page_tokens;
  settings.max_graph_batch = std::min(options.max_graph_batch, options.max_num_seqs);
  return settings;
}

// The tokens of a request with this adapter. Null: the base's.
std::int64_t vocabulary_of(const AdapterLease& adapter, const ModelSpec& config) {
  const std::int64_t own = adapter == nullptr ? 0 : adapter->contents().vocab_size;
  return own > 0 ? own : config.vocab_size;
}

EngineStats first_stats(const EngineOptions& options) {
  EngineStats stats;
  stats.page_tokens = options.page_tokens;
  stats.pages_total = options.num_pages;
  stats.pages_free = options.num_pages;
  return stats;
}

}  // namespace

Engine::Engine(const EngineOptions& options, const PoolShape& pool, const Tokenizer& tokenizer,
               const Clock& clock)
    : options_(options),
      tokenizer_(&tokenizer),
      added_tokens_(tokenizer),
      clock_(&clock),
      cold_starts_(clock),
      pool_(pool),
      prefixes_(options.prefix_cache ? std::make_unique<PrefixCache>(pool_) : nullptr),
      inbox_(options.max_queue, first_stats(options)),
      seeds_(std::random_device{}()) {}

Result<std::unique_ptr<Engine>> Engine::create(const EngineOptions& wanted, const ModelSpec& config,
                                               const WeightSource& weights, DType dtype,
                                               std::span<Device* const> devices,
                                               const Tokenizer& tokenizer, const Clock& clock,
                                               const LoadProgress& progress) {
  EngineOptions options = wanted;
  const std::int32_t most = devices.front()->info().max_lora_rank;
  if (options.max_lora_rank > most && options.max_lora_rank != EngineOptions().max_lora_rank) {
    log::warning("max_lora_rank {} is lowered to {}, the largest that this device computes",
                 options.max_lora_rank, most);
  }
  options.max_lora_rank = std::min(options.max_lora_rank, most);
  TANDEM_CHECK(options.num_pages > 0 && options.page_tokens > 0);
  if (options.max_model_len <= 0 || options.max_num_seqs <= 0 ||
      options.max_num_batched_tokens <= 0) {
    return invalid("max_model_len, max_num_seqs and max_num_batched_tokens must be positive");
  }
  const auto num_devices = static_cast<std::int32_t>(devices.size());
  TANDEM_TRY(check_shards(config, num_devices));
  Device& device = *devices.front();
  const PoolLayout layout =
      PoolLayout::of(shape_of_shard(config, num_devices), dtype, options.page_tokens);
  const PoolShape pool = layout.pool(options.num_pages, options.max_num_batched_tokens);
  if (pool.pages_for(options.max_model_len) > pool.num_pages) {
    return error(
        StatusCode::resource_exhausted,
        "the page pool holds {} tokens, fewer than one sequence of max_model_len {}; raise "
        "pool_gb or lower max_model_len",
        pool.longest_with(pool.num_pages), options.max_model_len);
  }
  std::unique_ptr<Engine> engine(new Engine(options, pool, tokenizer, clock));
  TANDEM_ASSIGN(
      engine->adapters_,
      AdapterStore::create(device, config, dtype,
                           store_options(options, num_devices, tokenizer, &engine->cold_starts_)));
  ConstraintOptions constraints;
  constraints.cache_bytes = options.grammar_cache_bytes;
  constraints.program = options.constraint_program;
  engine->constraints_ = std::make_unique<ConstraintCompiler>(
      tokenizer, static_cast<std::int32_t>(config.vocab_size), config.eos_token_ids, constraints);
  TANDEM_ASSIGN(engine->executor_,
                Executor::create(executor_options(options, pool.groups, &engine->cold_starts_),
                                 config, weights, dtype, devices, engine->pool_,
                                 engine->adapters_->host_tier(), clock, progress));
  TANDEM_ASSIGN(engine->score_, read_score_head(weights, config));
  std::vector<int> cpus;
  if (device.info().is_cuda) cpus = own_cores(options.handoff);
  if (cpus.size() > devices.size()) {  // one is left for the engine thread
    for (Device* each : devices) each->keep_to(cpus);
  }
  if (options.calibrate_s > 0) {
    CalibrationOptions calibration;
    calibration.seconds = options.calibrate_s;
    calibration.max_rows = options.max_num_batched_tokens;
    calibration.max_sequences = options.max_num_seqs;
    calibration.max_len = options.max_model_len;
    calibration.max_rank = options.max_lora_rank;
    TANDEM_TRY(calibrate_on(cpus, [&] {
      return calibrate(*engine->executor_, *engine->adapters_, device, engine->pool_, config, dtype,
                       clock, calibration);
    }));
    engine->cold_starts_.forget();
  }
  if (!options.recording.path.empty()) {
    TANDEM_ASSIGN(engine->recording_,
                  RecordingWriter::create(options.recording.path,
                                          recorded_settings(options, pool.groups, config, dtype)));
  }
  const EngineView view = first_view(options, engine->pool_.shape(), config, dtype);
  engine->inbox_.publish(view, std::nullopt);
  engine->loop_ = std::make_unique<EngineLoop>(
      engine->options_, batch_limits(options, config),
      EngineLoop::Parts{engine->pool_, engine->prefixes_.get(), *engine->adapters_,
                        *engine->executor_, engine->inbox_, engine->recording_.get(),
                        engine->cold_starts_, clock, view,
                        static_cast<std::int64_t>(layout.chunk_bytes()) * num_devices});
  engine->adapters_->on_news([raw = engine.get()] { raw->inbox_.tell_news(); });
  engine->thread_ = std::thread([raw = engine.get(), cpus] {
    pthread_setname_np(pthread_self(), "engine");
    if (!cpus.empty()) pin_this_thread(cpus, "the engine thread");
    raw->loop_->run();
  });
  return engine;
}

Engine::~Engine() {
  inbox_.stop();
  if (thread_.joinable()) thread_.join();
  // The store's thread may still call on_news(). The store itself is destroyed after the workers,
  // which may be about to open its regions.
  if (adapters_ != nullptr) adapters_->stop();
}

Result<std::unique_ptr<Generation>> Engine::submit(GenerationRequest request) {
  auto context = std::make_shared<RequestContext>();
  bool is_cold = false;
  if (!request.adapter.empty()) {
    context->adapter = adapters_->find(request.adapter);
    if (context->adapter == nullptr) {
      return error(StatusCode::not_found, "adapter '{}' is not loaded", request.adapter);
    }
  } else if (!request.adapters.empty()) {
    TANDEM_ASSIGN(context->adapter, adapters_->find_sum(request.adapters));
  }
  const ModelSpec& config = model().spec();
  const std::int64_t vocab_size = vocabulary_of(context->adapter, config);
  TANDEM_TRY(check_request(request, vocab_size, options_.max_model_len, options_.max_queue));
  std::shared_ptr<const AddedTokens> added;  // for a constraint
  if (context->adapter != nullptr) {
    TANDEM_ASSIGN(added, added_tokens(request, *context->adapter));
  }
  TANDEM_TRY(resolve_constraint(request));
  if (!config.writes_text && request.pooling == Pooling::none) {
    return invalid("the base model has no head that writes text; it serves /v1/embeddings{}",
                   score_ == nullptr ? "" : " and /v1/classify");
  }
  context->end_tokens = config.eos_token_ids;
  if (context->adapter != nullptr) {
    context->tokenizer = context->adapter->tokenizer();
    context->score = context->adapter->contents().score;
    const std::optional<std::int64_t> from =
        find_invocation(context->adapter->contents().invocation, request.prompt);
    if (from) {
      const std::vector<TokenId>& own = context->adapter->contents().end_tokens;
      context->end_tokens.insert(context->end_tokens.end(), own.begin(), own.end());
    } else {
      context->adapter = nullptr;  // the base model answers, whatever the name
    }
    context->adapter_from = from.value_or(0);
  }
  TANDEM_ASSIGN(context->score, score_head_for(request, context->score));
  if (context->adapter != nullptr) {
    context->readings_before = context->adapter->home().num_readings();
    const Residency residency = context->adapter->residency();
    context->stats.adapter_tier = tier_name(residency);
    is_cold = residency != Residency::resident;
  }
  const std::int64_t room =
      options_.max_model_len - static_cast<std::int64_t>(request.prompt.size());
  request.max_tokens = static_cast<std::int32_t>(std::min<std::int64_t>(request.max_tokens, room));
  TANDEM_TRY(check_before(request, vocab_size));
  std::shared_ptr<const TokenRules> rules;
  if (request.max_tokens > 0) {
    rules = TokenRules::of(request, static_cast<std::int32_t>(vocab_size), context->end_tokens,
                           added.get());
  }
  // Earlier output is processed on this thread, where no other request waits for it.
  TANDEM_ASSIGN(
      Continuations continuations,
      make_continuations(request, context->tokenizer == nullptr ? *tokenizer_ : *context->tokenizer,
                         context->end_tokens, rules, vocab_size));
  context->lead = -1;
  std::int32_t num_open = 0;
  for (std::int32_t i = 0; i < request.n; ++i) {
    if (continuations.all[static_cast<std::size_t>(i)].is_over) continue;
    if (num_open++ == 0) context->lead = i;
  }
  context->stats.prompt_tokens = static_cast<std::int32_t>(request.prompt.size());
  context->stats.completion_tokens = static_cast<std::int32_t>(continuations.num_tokens);
  context->submitted = clock_->now();
  context->stats.submitted = context->submitted;
  context->state = std::make_shared<GenerationState>(request.n, request.max_unread);
  context->state->take_up(std::move(continuations.said), context->stats);
  context->request = std::move(request);
  TANDEM_TRY(inbox_.submit(num_open, [&](std::uint64_t first) {
    context->seed = context->request.sampling.seed.value_or(seeds_());
    std::vector<std::unique_ptr<Sequence>> sequences;
    for (std::int32_t i = 0; i < context->request.n; ++i) {
      Continuation& each = continuations.all[static_cast<std::size_t>(i)];
      if (each.is_over) continue;
      sequences.push_back(std::make_unique<Sequence>(context, i, first + sequences.size(), pool_,
                                                     std::move(each.text), std::move(each.filter)));
    }
    if (context->adapter != nullptr) {
      ServedAdapter& adapter = *context->adapter;
      (is_cold ? adapter.cold_starts : adapter.hits).fetch_add(1, std::memory_order_relaxed);
      for (const auto& [each, scale] : adapter.set()) {
        (is_cold ? each->cold_starts : each->hits).fetch_add(1, std::memory_order_relaxed);
      }
    }
    return sequences;
  }));
  return std::unique_ptr<Generation>(std::make_unique<GenerationHandle>(context->state));
}

// `own`: that of the request's adapter.
Result<std::shared_ptr<const ScoreHead>> Engine::score_head_for(
    const GenerationRequest& request, const std::shared_ptr<const ScoreHead>& own) const {
  if (request.pooling != Pooling::classes && request.pooling != Pooling::score) {
    return std::shared_ptr<const ScoreHead>();
  }
  const std::shared_ptr<const ScoreHead>& head = own == nullptr ? score_ : own;
  const std::string name = request.adapters.empty() ? request.adapter : name_of(request.adapters);
  const std::string whose = name.empty() ? "the base model" : fmt::format("'{}'", name);
  if (head == nullptr) {
    return invalid("{} has no score head; an adapter trained for SEQ_CLS has", whose);
  }
  if (request.pooling == Pooling::score && head->labels != 1) {
    return invalid(
        "the score head of {} has {} labels, and a score is that of one; ask "
        "/v1/classify",
        whose, head->labels);
  }
  return head;
}

void Engine::compile(const TextConstraint& constraint, ConstraintDone done) {
  constraints_->compile(constraint, std::move(done));
}

// Constraints are compiled for the base's tokens.
Result<std::shared_ptr<const AddedTokens>> Engine::added_tokens(const GenerationRequest& request,
                                                                const ServedAdapter& adapter) {
  const bool constrained =
      request.constraint.kind != TextConstraint::Kind::none || request.compiled != nullptr;
  if (!constrained || adapter.tokenizer() == nullptr) return std::shared_ptr<const AddedTokens>();
  if (auto added = added_tokens_.find(adapter.tokenizer())) return added;
  return invalid(
      "the constraint of the text: adapter '{}' has other tokens than the base, for which "
      "constraints are compiled",
      adapter.name());
}

Status Engine::resolve_constraint(GenerationRequest& request) {
  if (request.constraint.kind == TextConstraint::Kind::none || request.compiled != nullptr)
    return {};
  auto compiled = constraints_->compile_now(request.constraint);
  if (!compiled) return compiled.status().with_context("the constraint of the text");
  request.compiled = *std::move(compiled);
  return {};
}

Status Engine::load_adapter(const std::string& name, const std::string& path, bool in_place,
                            bool pinned) {
  // A pinned adapter is on the device before its name is served.
  AdapterStore::Prepare prepare;
  if (pinned || keeps_all(options_.adapter_mode)) {
    prepare = [this](const AdapterLease& adapter) { return inbox_.keep_on_device(adapter); };
  }
  Status status = adapters_->load(name, path, in_place, pinned, prepare);
  inbox_.end_if_fatal(status);
  return status;
}

Status Engine::load_proven_adapter(const std::string& name, const std::string& path,
                                   const std::string& digest) {
  AdapterStore::Prepare prepare;
  if (keeps_all(options_.adapter_mode)) {
    prepare = [this](const AdapterLease& adapter) { return inbox_.keep_on_device(adapter); };
  }
  Status status = adapters_->load(name, path, true, false, prepare, digest);
  inbox_.end_if_fatal(status);
  return status;
}

Status Engine::unload_adapter(const std::string& name) {
  return adapters_->unload(name);
}

bool Engine::has_adapter(const std::string& name) const {
  return adapters_->find(name) != nullptr;
}

std::shared_ptr<const Tokenizer> Engine::adapter_tokenizer(const std::string& name) const {
  const AdapterLease adapter = adapters_->find(name);
  return adapter == nullptr ? nullptr : adapter->tokenizer();
}

std::vector<AdapterInfo> Engine::adapters() const {
  std::vector<AdapterInfo> result;
  for (const AdapterLease& lease : adapters_->list()) result.push_back(describe(*lease));
  return result;
}

std::vector<AdapterInfo> Engine::adapter_sets() const {
  std::vector<AdapterInfo> result;
  for (const AdapterLease& lease : adapters_->sums()) result.push_back(describe(*lease));
  return result;
}

EngineStats Engine::stats() const {
  EngineStats result = inbox_.stats();
  if (executor_->handoff() != nullptr) count_workers(*executor_->handoff(), result);
  return result;
}

std::optional<EngineLessons> Engine::lessons() const {
  const Handoff* const handoff = executor_->handoff();
  if (handoff == nullptr) return std::nullopt;
  return handoff->learner().lessons();
}

LearnedCosts Engine::learned_costs() const {
  const Handoff* const handoff = executor_->handoff();
  return handoff == nullptr ? LearnedCosts() : describe(handoff->learning());
}

EngineView Engine::view() const {
  EngineView view = inbox_.view(clock_->now());
  view.fetch_queue_bytes = adapters_->bytes_to_read();
  if (executor_->handoff() != nullptr) view.free_workers = executor_->handoff()->live_workers();
  return view;
}

std::vector<AdapterPresence> Engine::presences() const {
  std::vector<AdapterPresence> result;
  for (const AdapterLease& lease : adapters_->list()) result.push_back(presence_of(lease));
  return result;
}

std::vector<CpuWorker> Engine::cpu_workers() const {
  std::vector<CpuWorker> result;
  if (executor_->handoff() == nullptr) return result;
  for (WorkerStatus& each : executor_->handoff()->workers()) {
    const int node = options_.handoff.groups[static_cast<std::size_t>(each.group)].node;
    result.push_back({node, each.cpu, each.group, each.worker_slot, each.pid, each.ours,
                      each.left_out, each.restarts, each.jobs, each.busy_s,
                      std::move(each.last_end)});
  }
  return result;
}

void Engine::resume() {
  inbox_.resume();
}

void Engine::drain() {
  inbox_.drain();
}

bool Engine::ready() const {
  return !inbox_.is_draining();
}

Status Engine::failure() const {
  return inbox_.failure();
}

}  // namespace tandem
