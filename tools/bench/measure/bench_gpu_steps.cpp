#include "tools/bench/measure/bench_gpu_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "base/check.h"
#include "base/clock.h"
#include "engine/loader/weights.h"
#include "tools/bench/measure/bench_adapters.h"

namespace tandem {
namespace {

constexpr std::int32_t kPageTokens = 16;

std::int32_t pages_for(std::int32_t tokens) {
  return (tokens + kPageTokens - 1) / kPageTokens;
}

}  // namespace

GpuStepBench::~GpuStepBench() {
  if (stream_ != nullptr) (void)stream_->synchronize();  // its failures are nobody's any more
}

Result<std::unique_ptr<GpuStepBench>> GpuStepBench::create(Device& device, const ModelSpec& config,
                                                           DType dtype,
                                                           const GpuStepOptions& options,
                                                           const LoadProgress& progress) {
  std::unique_ptr<GpuStepBench> bench(new GpuStepBench);
  bench->options_ = options;
  bench->config_ = config;
  const std::int32_t longest = std::max(options.context, options.prefill_tokens) + 1;
  if (longest > config.max_position_embeddings) {
    return invalid("{} tokens are more than the model's {} positions", longest,
                   config.max_position_embeddings);
  }
  ModelLimits limits;
  limits.max_rows = std::max(options.prefill_tokens, options.batch);
  limits.max_samples = options.batch;
  limits.max_positions = longest;
  for (const AdapterSet& set : options.sets) {
    limits.max_lora_rank = std::max(limits.max_lora_rank, set.rank);
  }
  TANDEM_ASSIGN(bench->model_, Model::load(config, *make_dummy_weights(options.seed), dtype, limits,
                                           device, progress));

  const PoolLayout layout = PoolLayout::of(config, dtype, kPageTokens);
  std::int64_t chunks = 0;
  for (const AdapterSet& set : options.sets) {
    chunks += set.count * layout.chunks_for(adapter_bytes(config, dtype, set.rank, set.modules));
  }
  constexpr std::int32_t kSparePages = 64;  // what pages shared by adapters may leave unused
  const std::int32_t pages =
      kSparePages + options.batch * pages_for(options.context + 1) +
      pages_for(options.prefill_tokens) +
      static_cast<std::int32_t>((chunks + layout.chunks_per_page - 1) / layout.chunks_per_page);
  TANDEM_ASSIGN(bench->cache_, KvCache::create(device, layout, pages));
  bench->pool_ = std::make_unique<PagePool>(pages, kPageTokens, layout.chunks_per_page);
  TANDEM_TRY(bench->add_adapters(device, dtype));

  std::mt19937_64 random(options.seed);
  std::uniform_int_distribution<std::int32_t> any(0,
                                                  static_cast<std::int32_t>(config.vocab_size) - 1);
  for (std::int32_t i = 0; i <= options.batch; ++i) {
    const std::int32_t count = i < options.batch ? options.context + 1 : options.prefill_tokens;
    std::vector<std::int32_t>& tokens = bench->tokens_.emplace_back();
    for (std::int32_t t = 0; t < count; ++t) tokens.push_back(any(random));
    BlockTable table(*bench->pool_);
    TANDEM_CHECK(table.reserve(count), "the pool was sized for this");
    bench->tables_.push_back(std::move(table));
  }

  StepLimits step;
  step.max_rows = limits.max_rows;
  step.max_sequences = options.batch;
  step.max_samples = options.batch;
  step.max_pages = pages;
  TANDEM_ASSIGN(StepBatch batch, StepBatch::create(device, step));
  bench->batch_ = std::make_unique<StepBatch>(std::move(batch));
  bench->graphs_ = std::make_unique<DecodeGraphs>(*bench->model_, bench->cache_, options.batch);
  TANDEM_ASSIGN(bench->sampled_,
                device.allocate(sizeof(SampledToken) * static_cast<std::size_t>(options.batch),
                                "sampled tokens"));
  TANDEM_ASSIGN(bench->stream_, device.create_stream("bench"));
  TANDEM_TRY(bench->model_->tune(*bench->stream_));  // as the engine does at its start

  // The caches are computed, not filled with random numbers: attention then reads what it would.
  for (std::int32_t i = 0; i < options.batch; ++i) {
    bench->batch_->clear();
    bench->add(i, 0, options.context, kNoAdapters);
    TANDEM_TRY(bench->enqueue(false, false));
  }
  TANDEM_TRY(bench->stream_->synchronize());
  return bench;
}

Status GpuStepBench::add_adapters(Device& device, DType dtype) {
  std::vector<DummyAdapter> wanted;
  std::int32_t max_rank = 0;
  for (std::size_t s = 0; s < options_.sets.size(); ++s) {
    const AdapterSet& set = options_.sets[s];
    max_rank = std::max(max_rank, set.rank);
    for (std::int32_t i = 0; i < set.count; ++i) {
      wanted.push_back({fmt::format("{}-{}", s, i), set.rank, set.modules});
    }
  }
  AdapterStoreOptions store;
  store.max_adapters = static_cast<std::int32_t>(wanted.size());
  store.max_rank = max_rank;
  store.host_tier_bytes = host_tier_bytes_for(config_, dtype, wanted);
  TANDEM_ASSIGN(adapters_, AdapterStore::create(device, config_, dtype, store));
  TANDEM_TRY(add_dummy_adapters(*adapters_, config_, dtype, wanted, {}));
  TANDEM_ASSIGN(device_tier_, DeviceTier::create(device, config_, dtype, max_rank,
                                                 store.max_adapters, cache_, *pool_));
  for (std::size_t s = 0; s < options_.sets.size(); ++s) {
    std::vector<AdapterLease>& leases = leases_.emplace_back();
    for (std::int32_t i = 0; i < options_.sets[s].count; ++i) {
      leases.push_back(adapters_->find(fmt::format("{}-{}", s, i)));
      while (device_tier_->start(leases.back()) != DeviceTier::Start::on_its_way) {
        TANDEM_TRY(device_tier_->finish_loads());
      }
      device_tier_->room().keep(*leases.back());
    }
  }
  return device_tier_->finish_loads();
}

void GpuStepBench::add(std::int32_t sequence, std::int32_t start, std::int32_t count, int set) {
  const auto index = static_cast<std::size_t>(sequence);
  const std::span<const std::int32_t> tokens(tokens_[index]);
  const AdapterSlot slot =
      set < 0 ? AdapterSlot{} : device_tier_->slot(*leases_[static_cast<std::size_t>(set)][index]);
  const std::int32_t row = batch_->add_sequence(
      tokens.subspan(static_cast<std::size_t>(start), static_cast<std::size_t>(count)), start,
      tables_[index].pages(), kPageTokens, slot);
  batch_->add_sample(row + count - 1, SampleRow{}, {}, {});
}

void GpuStepBench::fill_decode(std::int32_t first, std::int32_t batch, int set) {
  batch_->clear();
  for (std::int32_t i = first; i < first + batch; ++i) add(i, options_.context, 1, set);
}

Status GpuStepBench::enqueue(bool recorded, bool sample) {
  if (recorded) TANDEM_CHECK(graphs_->pad(*batch_), "a decode step of {}", batch_->num_rows());
  const StepInput input = batch_->upload(*stream_);
  if (recorded) {
    TANDEM_TRY(graphs_->launch(*stream_, input, device_tier_->table()));
  } else {
    model_->forward(*stream_, input, cache_, device_tier_->table());
  }
  if (sample) model_->sample(*stream_, input, reinterpret_cast<SampledToken*>(sampled_.data()));
  return {};
}

Result<Samples> GpuStepBench::decode(std::int32_t batch, int set, int samples) {
  const SteadyClock clock;
  Samples result{set < 0 ? fmt::format("decode step, batch {}", batch)
                         : fmt::format("decode step, batch {}, {} x {}", batch, batch,
                                       options_.sets[static_cast<std::size_t>(set)].name),
                 "ms",
                 {}};
  for (int i = -options_.warm_up; i < samples; ++i) {
    TANDEM_TRY(stream_->synchronize());
    const TimePoint start = clock.now();
    for (int step = 0; step < options_.steps_per_sample; ++step) {
      fill_decode(0, batch, set);
      TANDEM_TRY(enqueue(true, true));
    }
    TANDEM_TRY(stream_->synchronize());
    const double ms = seconds_between(start, clock.now()) * 1e3 / options_.steps_per_sample;
    if (i >= 0) result.values.push_back(ms);
  }
  return result;
}

Result<Samples> GpuStepBench::prefill(std::int32_t tokens, int samples) {
  const SteadyClock clock;
  Samples result{fmt::format("prefill step, {} tokens", tokens), "ms", {}};
  for (int i = -options_.warm_up; i < samples; ++i) {
    TANDEM_TRY(stream_->synchronize());
    const TimePoint start = clock.now();
    for (int step = 0; step < options_.steps_per_sample; ++step) {
      batch_->clear();
      add(options_.batch, 0, tokens, kNoAdapters);
      TANDEM_TRY(enqueue(false, true));
    }
    TANDEM_TRY(stream_->synchronize());
    const double ms = seconds_between(start, clock.now()) * 1e3 / options_.steps_per_sample;
    if (i >= 0) result.values.push_back(ms);
  }
  return result;
}

Result<std::vector<float>> GpuStepBench::read_logits(std::int32_t rows) {
  const TensorView view = model_->logits(rows);
  std::vector<float> logits(static_cast<std::size_t>(view.num_elements()));
  stream_->copy_to_host(logits.data(), view.data, logits.size() * sizeof(float));
  TANDEM_TRY(stream_->synchronize());
  return logits;
}

Result<std::vector<float>> GpuStepBench::decode_logits(std::int32_t first, std::int32_t batch,
                                                       int set, bool recorded) {
  fill_decode(first, batch, set);
  TANDEM_TRY(enqueue(recorded, false));
  return read_logits(batch);
}

Result<std::vector<float>> GpuStepBench::prefill_logits(std::int32_t tokens, bool in_one_step) {
  if (!in_one_step) {
    batch_->clear();
    add(options_.batch, 0, tokens - 1, kNoAdapters);
    TANDEM_TRY(enqueue(false, false));
  }
  batch_->clear();
  add(options_.batch, in_one_step ? 0 : tokens - 1, in_one_step ? tokens : 1, kNoAdapters);
  TANDEM_TRY(enqueue(false, false));
  return read_logits(1);
}

double GpuStepBench::prefill_bytes() const {
  auto bytes = static_cast<double>(model_->weight_bytes());
  if (!config_.tie_word_embeddings) {  // of the embedding, only rows are read
    bytes -= static_cast<double>(config_.vocab_size * config_.hidden_size) *
             static_cast<double>(size_of(model_->dtype()));
  }
  return bytes;
}

double GpuStepBench::decode_bytes(std::int32_t batch, int set) const {
  const auto element = static_cast<double>(size_of(model_->dtype()));
  const double kv = static_cast<double>(batch) * (options_.context + 1) * 2 *
                    static_cast<double>(config_.num_layers() * config_.kv_size()) * element;
  double adapters = 0;
  for (std::int32_t i = 0; set >= 0 && i < batch; ++i) {
    adapters += static_cast<double>(
        leases_[static_cast<std::size_t>(set)][static_cast<std::size_t>(i)]->bytes());
  }
  return prefill_bytes() + kv + adapters;
}

double GpuStepBench::prefill_flops(std::int32_t tokens) const {
  const ModelSpec& c = config_;
  const std::int64_t layer = c.hidden_size * (c.q_size() + 2 * c.kv_size()) +
                             c.q_size() * c.hidden_size + 3 * c.hidden_size * c.mlp().size;
  const double linear = 2.0 * tokens * static_cast<double>(c.num_layers() * layer) +
                        2.0 * static_cast<double>(c.hidden_size * c.vocab_size);
  // Causal: every token sees half of the others on average, for q k^T and for its use.
  const double attention = 2.0 * tokens * tokens * static_cast<double>(c.num_layers() * c.q_size());
  return linear + attention;
}

}  // namespace tandem
