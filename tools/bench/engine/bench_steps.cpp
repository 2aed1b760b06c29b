#include "tools/bench/engine/bench_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "base/clock.h"
#include "engine/loader/weights.h"

namespace tandem {
namespace {

constexpr std::int32_t kPageTokens = 16;
const std::vector<Module> kAllModules = {Module::q,    Module::k,  Module::v,   Module::o,
                                         Module::gate, Module::up, Module::down};

std::vector<std::int32_t> random_tokens(std::int32_t count, std::int64_t vocab,
                                        std::mt19937_64& random) {
  std::uniform_int_distribution<std::int32_t> any(0, static_cast<std::int32_t>(vocab) - 1);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (std::int32_t& token : tokens) token = any(random);
  return tokens;
}

}  // namespace

Result<std::unique_ptr<StepBench>> StepBench::create(Device& device, const ModelSpec& config,
                                                     DType dtype, const StepBenchOptions& options,
                                                     const LoadProgress& progress) {
  std::unique_ptr<StepBench> bench(new StepBench);
  bench->options_ = options;
  bench->device_ = &device;
  const std::int32_t longest = std::max(options.context, options.prefill_tokens) + 1;
  if (longest > config.max_position_embeddings) {
    return invalid("{} tokens are more than the model's {} positions", longest,
                   config.max_position_embeddings);
  }
  const std::int32_t rows = std::max(options.prefill_tokens, options.batch);

  ModelLimits limits;
  limits.max_rows = rows;
  limits.max_samples = options.batch;
  limits.max_positions = longest;
  limits.max_lora_rank = options.adapter_rank;
  TANDEM_ASSIGN(bench->model_, Model::load(config, *make_dummy_weights(options.seed), dtype, limits,
                                           device, progress));

  for (std::int32_t i = 0; i < options.batch; ++i) {
    Adapter adapter = make_dummy_adapter(config, dtype, options.adapter_rank, kAllModules,
                                         static_cast<std::uint64_t>(i));
    if (i == 0) {
      AdapterStoreOptions store;
      store.max_adapters = options.batch;
      store.max_rank = options.adapter_rank;
      store.host_tier_bytes = adapter.num_bytes * static_cast<std::size_t>(options.batch);
      TANDEM_ASSIGN(bench->adapters_, AdapterStore::create(device, config, dtype, store));
    }
    const std::string name = fmt::format("dummy-{}", i);
    TANDEM_TRY(bench->adapters_->add(name, std::move(adapter), false, false));
    bench->leases_.push_back(bench->adapters_->find(name));
  }

  const auto pages_for = [](std::int32_t tokens) {
    return (tokens + kPageTokens - 1) / kPageTokens;
  };
  const PoolLayout layout = PoolLayout::of(config, dtype, kPageTokens);
  const std::int64_t chunks = options.batch * layout.chunks_for(bench->leases_.front()->bytes());
  const std::int32_t pages =
      options.batch * pages_for(options.context + 1) + pages_for(options.prefill_tokens) +
      static_cast<std::int32_t>((chunks + layout.chunks_per_page - 1) / layout.chunks_per_page);
  TANDEM_ASSIGN(bench->cache_, KvCache::create(device, layout, pages));
  bench->pool_ = std::make_unique<PagePool>(pages, kPageTokens, layout.chunks_per_page);
  TANDEM_ASSIGN(bench->device_tier_,
                DeviceTier::create(device, config, dtype, options.adapter_rank, options.batch,
                                   bench->cache_, *bench->pool_));
  for (const AdapterLease& adapter : bench->leases_) {
    while (bench->device_tier_->start(adapter) != DeviceTier::Start::on_its_way) {
      TANDEM_TRY(bench->device_tier_->finish_loads());
    }
  }
  TANDEM_TRY(bench->device_tier_->finish_loads());
  std::mt19937_64 random(options.seed);
  for (std::int32_t i = 0; i <= options.batch; ++i) {
    const std::int32_t tokens = i < options.batch ? options.context + 1 : options.prefill_tokens;
    bench->tokens_.push_back(random_tokens(tokens, config.vocab_size, random));
    BlockTable table(*bench->pool_);
    TANDEM_CHECK(table.reserve(tokens), "the pool was sized for this");
    bench->tables_.push_back(std::move(table));
  }

  StepLimits step;
  step.max_rows = rows;
  step.max_sequences = options.batch;
  step.max_samples = options.batch;
  step.max_pages = pages;
  TANDEM_ASSIGN(StepBatch batch, StepBatch::create(device, step));
  bench->batch_ = std::make_unique<StepBatch>(std::move(batch));
  TANDEM_ASSIGN(bench->stream_, device.create_stream("bench"));
  TANDEM_ASSIGN(bench->sampled_,
                device.allocate(sizeof(SampledToken) * static_cast<std::size_t>(options.batch),
                                "sampled tokens"));

  // The caches are computed and not filled with random numbers, so that attention reads realistic
  // data.
  for (std::int32_t i = 0; i < options.batch; ++i) {
    for (std::int32_t done = 0; done < options.context;) {
      const std::int32_t count = std::min(rows, options.context - done);
      bench->batch_->clear();
      bench->add(i, done, count, false);
      TANDEM_ASSIGN([[maybe_unused]] const double seconds, bench->run(false));
      done += count;
    }
  }
  return bench;
}

void StepBench::add(std::int32_t sequence, std::int32_t start, std::int32_t count, bool adapters) {
  const auto index = static_cast<std::size_t>(sequence);
  const std::span<const std::int32_t> tokens(tokens_[index]);
  const AdapterSlot slot = adapters ? device_tier_->slot(*leases_[index]) : AdapterSlot{};
  const std::int32_t row = batch_->add_sequence(
      tokens.subspan(static_cast<std::size_t>(start), static_cast<std::size_t>(count)), start,
      tables_[index].pages(), kPageTokens, slot);
  batch_->add_sample(row + count - 1, SampleRow{}, {}, {});
}

Result<double> StepBench::run(bool sample) {
  const SteadyClock clock;
  const TimePoint start = clock.now();
  const StepInput input = batch_->upload(*stream_);
  model_->forward(*stream_, input, cache_, device_tier_->table());
  if (sample) model_->sample(*stream_, input, reinterpret_cast<SampledToken*>(sampled_.data()));
  TANDEM_TRY(stream_->synchronize());
  return seconds_between(start, clock.now());
}

Result<std::vector<float>> StepBench::read_logits() {
  const TensorView view = model_->logits(batch_->num_samples());
  std::vector<float> logits(static_cast<std::size_t>(view.num_elements()));
  stream_->copy_to_host(logits.data(), view.data, logits.size() * sizeof(float));
  TANDEM_TRY(stream_->synchronize());
  return logits;
}

Result<double> StepBench::decode(std::int32_t batch, bool adapters) {
  batch_->clear();
  for (std::int32_t i = 0; i < batch; ++i) add(i, options_.context, 1, adapters);
  return run(true);
}

Result<double> StepBench::prefill() {
  batch_->clear();
  add(options_.batch, 0, options_.prefill_tokens, false);
  return run(true);
}

Result<std::vector<float>> StepBench::decode_logits(std::int32_t first, std::int32_t batch,
                                                    bool adapters) {
  batch_->clear();
  for (std::int32_t i = first; i < first + batch; ++i) add(i, options_.context, 1, adapters);
  TANDEM_ASSIGN([[maybe_unused]] const double seconds, run(false));
  return read_logits();
}

Result<std::vector<float>> StepBench::prefill_logits() {
  batch_->clear();
  add(options_.batch, 0, options_.prefill_tokens, false);
  TANDEM_ASSIGN([[maybe_unused]] const double seconds, run(false));
  return read_logits();
}

Result<std::vector<float>> StepBench::last_prompt_token_logits() {
  batch_->clear();
  add(options_.batch, options_.prefill_tokens - 1, 1, false);
  TANDEM_ASSIGN([[maybe_unused]] const double seconds, run(false));
  return read_logits();
}

double StepBench::decode_weight_bytes() const {
  const ModelSpec& config = model_->spec();
  auto bytes = static_cast<double>(model_->weight_bytes());
  if (!config.tie_word_embeddings) {
    bytes -= static_cast<double>(config.vocab_size * config.hidden_size) *
             static_cast<double>(size_of(model_->dtype()));
  }
  return bytes;
}

double StepBench::prefill_flops() const {
  const ModelSpec& c = model_->spec();
  const std::int64_t layer = c.hidden_size * (c.q_size() + 2 * c.kv_size()) +
                             c.q_size() * c.hidden_size + 3 * c.hidden_size * c.mlp().size;
  return 2.0 * static_cast<double>(options_.prefill_tokens) *
             static_cast<double>(c.num_layers() * layer) +
         2.0 * static_cast<double>(c.hidden_size * c.vocab_size);
}

std::size_t StepBench::device_bytes() const {
  return model_->weight_bytes() + model_->workspace_bytes() + cache_.bytes();
}

}  // namespace tandem
