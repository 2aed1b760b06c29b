#include "tools/bench/measure/bench_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "base/check.h"
#include "engine/loader/shard.h"
#include "engine/loader/weights.h"
#include "engine/memory/pool_layout.h"
#include "tools/bench/measure/bench_adapters.h"

namespace tandem {
namespace {

constexpr std::int32_t kExecutorPageTokens = 16;

std::int32_t pages_of(std::int64_t tokens) {
  return static_cast<std::int32_t>((tokens + kExecutorPageTokens - 1) / kExecutorPageTokens);
}

StepPlan::Range range_after(std::size_t size, std::int32_t count) {
  return {static_cast<std::int32_t>(size), count};
}

}  // namespace

Result<std::unique_ptr<ExecutorBench>> ExecutorBench::create(std::span<Device* const> devices,
                                                             const ModelSpec& config, DType dtype,
                                                             const ExecutorBenchOptions& options,
                                                             const LoadProgress& progress) {
  std::unique_ptr<ExecutorBench> bench(new ExecutorBench);
  bench->options_ = options;
  bench->config_ = config;
  bench->num_devices_ = static_cast<std::int32_t>(devices.size());
  const std::int32_t longest = std::max(options.context, options.prefill_tokens) + 1;
  if (longest > config.max_position_embeddings) {
    return invalid("{} tokens are more than the model's {} positions; lower context", longest,
                   config.max_position_embeddings);
  }
  TANDEM_TRY(check_shards(config, bench->num_devices_));
  for (const AdapterSet& set : options.sets) {
    bench->max_rank_ = std::max(bench->max_rank_, set.rank);
  }
  TANDEM_TRY(bench->load_adapters(*devices.front(), dtype, bench->num_devices_));
  TANDEM_TRY(bench->make_executor(devices, dtype, progress));
  TANDEM_TRY(bench->load_onto_devices());
  TANDEM_TRY(bench->fill_caches());
  return bench;
}

Status ExecutorBench::load_adapters(Device& device, DType dtype, std::int32_t num_devices) {
  std::vector<DummyAdapter> wanted;
  for (std::size_t s = 0; s < options_.sets.size(); ++s) {
    const AdapterSet& set = options_.sets[s];
    for (std::int32_t i = 0; i < set.count; ++i) {
      wanted.push_back({fmt::format("{}-{}", s, i), set.rank, set.modules});
    }
  }
  AdapterStoreOptions store;
  store.num_devices = num_devices;
  store.max_adapters = std::max(1, static_cast<std::int32_t>(wanted.size()));
  store.max_rank = std::max(1, max_rank_);
  store.host_tier_bytes = host_tier_bytes_for(config_, dtype, wanted);
  TANDEM_ASSIGN(adapters_, AdapterStore::create(device, config_, dtype, store));
  return add_dummy_adapters(*adapters_, config_, dtype, wanted, {});
}

Status ExecutorBench::make_executor(std::span<Device* const> devices, DType dtype,
                                    const LoadProgress& progress) {
  const PoolLayout layout =
      PoolLayout::of(shape_of_shard(config_, num_devices_), dtype, kExecutorPageTokens);
  std::int64_t chunks = 0;
  std::int32_t num_adapters = 0;
  for (const AdapterSet& set : options_.sets) {
    // Of a shard there is less: A of some modules is whole on every device, at most.
    chunks += set.count * layout.chunks_for(adapter_bytes(config_, dtype, set.rank, set.modules));
    num_adapters += set.count;
  }
  constexpr std::int32_t kSparePages = 64;  // what pages shared by adapters may leave unused
  const std::int32_t pages =
      kSparePages + options_.batch * pages_of(options_.context + 1) +
      pages_of(options_.prefill_tokens) +
      static_cast<std::int32_t>((chunks + layout.chunks_per_page - 1) / layout.chunks_per_page);
  pool_ = std::make_unique<PagePool>(pages, kExecutorPageTokens, layout.chunks_per_page);

  ExecutorOptions options;
  options.model.max_rows = std::max({options_.prefill_tokens, options_.context, options_.batch});
  options.model.max_samples = options_.batch;
  options.model.max_positions = std::max(options_.context, options_.prefill_tokens) + 1;
  options.model.max_lora_rank = max_rank_;
  options.step.max_rows = options.model.max_rows;
  options.step.max_sequences = options_.batch;
  options.step.max_samples = options_.batch;
  options.step.max_pages = pages;
  options.max_device_adapters = std::max(1, num_adapters);
  // As an engine's, on either kind of device.
  if (devices.front()->info().is_cuda) {
    options.max_graph_batch = options_.batch;
    options.record_at_start = true;
    options.tune_at_start = true;
  }
  TANDEM_ASSIGN(executor_,
                Executor::create(options, config_, *make_dummy_weights(options_.seed), dtype,
                                 devices, *pool_, adapters_->host_tier(), clock_, progress));
  return {};
}

Status ExecutorBench::load_onto_devices() {
  DeviceTier& tier = executor_->tier();
  for (std::size_t s = 0; s < options_.sets.size(); ++s) {
    std::vector<AdapterLease>& leases = leases_.emplace_back();
    for (std::int32_t i = 0; i < options_.sets[s].count; ++i) {
      leases.push_back(adapters_->find(fmt::format("{}-{}", s, i)));
      while (tier.start(leases.back()) != DeviceTier::Start::on_its_way) {
        TANDEM_TRY(tier.finish_loads());
      }
      tier.room().keep(*leases.back());
    }
  }
  return tier.finish_loads();
}

// Computed, not filled with random numbers: attention then reads what it would.
Status ExecutorBench::fill_caches() {
  std::mt19937_64 random(options_.seed);
  std::uniform_int_distribution<TokenId> any(0, static_cast<TokenId>(config_.vocab_size) - 1);
  for (std::int32_t i = 0; i <= options_.batch; ++i) {
    const std::int32_t count = i < options_.batch ? options_.context + 1 : options_.prefill_tokens;
    std::vector<TokenId>& tokens = tokens_.emplace_back();
    for (std::int32_t t = 0; t < count; ++t) tokens.push_back(any(random));
    BlockTable table(*pool_);
    TANDEM_CHECK(table.reserve(count), "the pool was sized for this");
    tables_.push_back(std::move(table));
  }
  for (std::int32_t i = 0; i < options_.batch; ++i) {
    StepPlan plan;
    add(plan, i, 0, options_.context, kNoAdapters);
    TANDEM_TRY(time(plan, 1).status());
  }
  return {};
}

void ExecutorBench::add(StepPlan& plan, std::int32_t sequence, std::int32_t start,
                        std::int32_t count, int set) const {
  const auto index = static_cast<std::size_t>(sequence);
  const auto first = tokens_[index].begin() + start;
  const std::span<const PageId> pages = tables_[index].pages();
  StepPlan::Entry entry;
  entry.id = static_cast<std::uint64_t>(sequence);
  entry.start = start;
  entry.tokens = range_after(plan.tokens.size(), count);
  entry.pages = range_after(plan.pages.size(), static_cast<std::int32_t>(pages.size()));
  entry.samples = range_after(plan.samples.size(), 1);
  if (set >= 0) {
    entry.adapter = executor_->tier().slot(*leases_[static_cast<std::size_t>(set)][index]);
  }
  plan.tokens.insert(plan.tokens.end(), first, first + count);
  plan.pages.insert(plan.pages.end(), pages.begin(), pages.end());
  StepPlan::Sample& sample = plan.samples.emplace_back();
  sample.row = count - 1;
  sample.how.num_logprobs = 0;
  plan.entries.push_back(entry);
}

StepPlan ExecutorBench::decode_plan(std::int32_t batch, int set) const {
  StepPlan plan;
  for (std::int32_t i = 0; i < batch; ++i) add(plan, i, options_.context, 1, set);
  return plan;
}

Result<double> ExecutorBench::time(const StepPlan& plan, int steps) {
  const TimePoint start = clock_.now();
  for (int enqueued = 0; enqueued < steps || !executor_->empty();) {
    if (enqueued < steps && !executor_->full()) {
      executor_->enqueue(plan);
      ++enqueued;
      continue;
    }
    Status status = executor_->wait().status;
    if (status.ok()) continue;
    while (!executor_->empty()) (void)executor_->wait();  // void, too
    return status;
  }
  executor_->rest();
  return seconds_between(start, clock_.now()) / steps;
}

Result<double> ExecutorBench::decode(std::int32_t batch, int set) {
  return time(decode_plan(batch, set), options_.steps_per_sample);
}

Result<double> ExecutorBench::prefill(std::int32_t tokens) {
  StepPlan plan;
  add(plan, options_.batch, 0, tokens, kNoAdapters);
  return time(plan, options_.steps_per_sample);
}

Result<std::vector<SampledToken>> ExecutorBench::sampled(std::int32_t batch, int set) {
  executor_->enqueue(decode_plan(batch, set));
  const StepResult result = executor_->wait();
  executor_->rest();
  if (!result.status.ok()) return result.status;
  return std::vector<SampledToken>(result.samples.begin(), result.samples.end());
}

double ExecutorBench::decode_bytes(std::int32_t batch) const {
  const Model& model = executor_->model();
  const auto element = static_cast<double>(size_of(model.dtype()));
  auto weights = static_cast<double>(model.weight_bytes());
  if (!config_.tie_word_embeddings) {  // of the embedding, only rows are read
    const std::int64_t vocab = vocab_of_shard(config_, {0, num_devices_}).count;
    weights -= static_cast<double>(vocab * config_.hidden_size) * element;
  }
  const ModelSpec& shape = model.spec();
  const double kv = static_cast<double>(batch) * (options_.context + 1) * 2 *
                    static_cast<double>(shape.num_layers() * shape.kv_size()) * element;
  return weights + kv;
}

}  // namespace tandem
