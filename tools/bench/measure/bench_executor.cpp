#include "tools/bench/measure/bench_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <set>

#include "base/check.h"
#include "engine/loader/shard.h"
#include "engine/loader/weights.h"
#include "engine/memory/kv_cache.h"
#include "engine/model/graphs/decode_graphs.h"
#include "engine/model/spec/spread.h"
#include "engine/model/step/step_batch.h"

namespace tandem {
namespace {

constexpr std::int32_t kExecutorPageTokens = 16;

StepPlan::Range range_after(std::size_t size, std::int32_t count) {
  return {static_cast<std::int32_t>(size), count};
}

template <typename T>
std::span<const T> part(const std::vector<T>& list, StepPlan::Range range) {
  return std::span<const T>(list).subspan(static_cast<std::size_t>(range.first),
                                          static_cast<std::size_t>(range.count));
}

std::string adapter_name(std::size_t set, std::int32_t index) {
  return fmt::format("{}-{}", set, index);
}

}  // namespace

// A model with the stream and the memory for its steps.
struct ExecutorBench::Straight {
  std::unique_ptr<Model> model;
  KvCache cache;
  std::unique_ptr<DeviceTier> tier;
  std::unique_ptr<DecodeGraphs> graphs;
  std::unique_ptr<StepBatch> batch;
  Buffer sampled;
  std::unique_ptr<Stream> stream;

  ~Straight() {
    if (stream != nullptr) (void)stream->synchronize();  // nobody needs the outcome any more
  }

  // `recorded`: replays a recording if there is one and the step is a decode step.
  Status enqueue(const StepPlan& plan, bool recorded, bool sample) {
    batch->clear();
    for (const StepPlan::Entry& entry : plan.entries) {
      const std::int32_t row = batch->add_sequence(
          part(plan.tokens, entry.tokens), entry.start, part(plan.pages, entry.pages),
          cache.page_tokens(), entry.adapter, entry.rotary_length);
      batch->add_sample(row + entry.tokens.count - 1, SampleRow{}, {}, {});
    }
    recorded = recorded && batch->decodes_only() && !graphs->buckets().empty();
    if (recorded) TANDEM_CHECK(graphs->pad(*batch), "a decode step of {}", batch->num_rows());
    const StepInput input = batch->upload(*stream);
    if (recorded) {
      TANDEM_TRY(graphs->launch(*stream, input, tier->lane(0).table()));
    } else {
      model->forward(*stream, input, cache, tier->lane(0).table());
    }
    if (sample) model->sample(*stream, input, reinterpret_cast<SampledToken*>(sampled.data()));
    return {};
  }

  Result<std::vector<float>> logits(const StepPlan& plan, bool recorded) {
    TANDEM_TRY(enqueue(plan, recorded, false));
    const TensorView view = model->logits(static_cast<std::int32_t>(plan.entries.size()));
    std::vector<float> logits(static_cast<std::size_t>(view.num_elements()));
    stream->copy_to_host(logits.data(), view.data, logits.size() * sizeof(float));
    TANDEM_TRY(stream->synchronize());
    return logits;
  }
};

ExecutorBench::ExecutorBench() = default;
ExecutorBench::~ExecutorBench() = default;

Result<std::unique_ptr<ExecutorBench>> ExecutorBench::create(std::span<Device* const> devices,
                                                             const ModelSpec& spec, DType dtype,
                                                             const ExecutorBenchOptions& options,
                                                             const LoadProgress& progress) {
  TANDEM_CHECK(devices.size() == 1 || !options.straight, "{} devices", devices.size());
  std::unique_ptr<ExecutorBench> bench(new ExecutorBench);
  bench->options_ = options;
  bench->num_devices_ = static_cast<std::int32_t>(devices.size());
  bench->spec_ = spread_over(spec, bench->num_devices_);
  const std::int32_t longest = std::max(options.context, options.prefill_tokens) + 1;
  if (longest > spec.max_position_embeddings) {
    return invalid("{} tokens are more than the model's {} positions", longest,
                   spec.max_position_embeddings);
  }
  TANDEM_TRY(check_shards(bench->spec_, bench->num_devices_));
  TANDEM_TRY(bench->make_store(*devices.front(), dtype));
  TANDEM_TRY(bench->make_steps(devices, dtype, progress));
  TANDEM_TRY(bench->load_adapters(devices.front()->info().is_cuda));
  TANDEM_TRY(bench->fill_caches());
  return bench;
}

std::vector<DummyAdapter> ExecutorBench::wanted_adapters() const {
  std::vector<DummyAdapter> wanted;
  for (std::size_t s = 0; s < options_.sets.size(); ++s) {
    const AdapterSet& set = options_.sets[s];
    for (std::int32_t i = 0; i < set.count; ++i) {
      wanted.push_back({adapter_name(s, i), set.rank, set.modules, set.whole});
    }
  }
  return wanted;
}

Status ExecutorBench::make_store(Device& device, DType dtype) {
  const std::vector<DummyAdapter> wanted = wanted_adapters();
  AdapterStoreOptions store;
  store.num_devices = num_devices_;
  store.max_adapters = std::max(1, static_cast<std::int32_t>(wanted.size()));
  store.max_rank = 1;
  for (const AdapterSet& set : options_.sets) store.max_rank = std::max(store.max_rank, set.rank);
  store.host_tier_bytes = host_tier_bytes_for(spec_, dtype, wanted);
  TANDEM_ASSIGN(adapters_, AdapterStore::create(device, spec_, dtype, store));
  return {};
}

Status ExecutorBench::make_steps(std::span<Device* const> devices, DType dtype,
                                 const LoadProgress& progress) {
  ExecutorOptions options;
  layout_ = PoolLayout::of(shape_of_shard(spec_, num_devices_), dtype, kExecutorPageTokens);
  std::int64_t chunks = 0;
  for (const AdapterSet& set : options_.sets) {
    // An upper bound: a shard has fewer bytes, although A of some modules is whole on every device.
    chunks += set.count * layout_.chunks_for(
                              adapter_bytes(spec_, dtype, {"", set.rank, set.modules, set.whole}));
    options.max_device_adapters += set.count;
    options.model.max_lora_rank = std::max(options.model.max_lora_rank, set.rank);
  }
  options.max_device_adapters = std::max(1, options.max_device_adapters);
  const auto pages_of = [](std::int64_t size, std::int32_t of_page) {
    return static_cast<std::int32_t>((size + of_page - 1) / of_page);
  };
  constexpr std::int32_t kSparePages = 64;  // room that pages shared by adapters may leave unused
  const std::int32_t pages =
      kSparePages +
      layout_.groups.count() *
          (options_.batch * pages_of(options_.context + 1, kExecutorPageTokens) +
           pages_of(options_.prefill_tokens, kExecutorPageTokens)) +
      pages_of(chunks, layout_.chunks_per_page);
  pool_ = std::make_unique<PagePool>(layout_.pool(pages, options_.prefill_tokens));

  options.model.max_rows = std::max(options_.prefill_tokens, options_.batch);
  options.model.max_samples = options_.batch;
  options.model.max_positions = std::max(options_.context, options_.prefill_tokens) + 1;
  options.step.max_rows = options.model.max_rows;
  options.step.max_sequences = options_.batch;
  options.step.max_samples = options_.batch;
  options.step.max_pages = pages;
  options.step.page_groups = layout_.groups.count();
  // The same settings as in an engine, on either kind of device.
  if (devices.front()->info().is_cuda) {
    options.max_graph_batch = options_.batch;
    options.record_at_start = true;
    options.tune_at_start = true;
  }
  const auto weights =
      make_dummy_weights(options_.seed, spec_.norm_adds_one ? 0 : 1, options_.weights);
  if (options_.straight) {
    return make_straight(options, *weights, dtype, *devices.front(), progress);
  }
  TANDEM_ASSIGN(executor_, Executor::create(options, spec_, *weights, dtype, devices, *pool_,
                                            adapters_->host_tier(), clock_, progress));
  return {};
}

// Each recording is made at its first use.
Status ExecutorBench::make_straight(const ExecutorOptions& options, const WeightSource& weights,
                                    DType dtype, Device& device, const LoadProgress& progress) {
  straight_ = std::make_unique<Straight>();
  Straight& on = *straight_;
  TANDEM_ASSIGN(on.model, Model::load(spec_, weights, dtype, options.model, device, progress));
  TANDEM_ASSIGN(on.cache, KvCache::create(device, layout_, pool_->shape().num_pages));
  TANDEM_ASSIGN(
      on.tier, DeviceTier::create({{&device, &on.cache}}, spec_, dtype, options.model.max_lora_rank,
                                  options.max_device_adapters, *pool_));
  on.graphs = std::make_unique<DecodeGraphs>(*on.model, on.cache, options.max_graph_batch);
  TANDEM_ASSIGN(StepBatch batch, StepBatch::create(device, options.step));
  on.batch = std::make_unique<StepBatch>(std::move(batch));
  TANDEM_ASSIGN(on.sampled, device.allocate(sizeof(SampledToken) *
                                                static_cast<std::size_t>(options.step.max_samples),
                                            "sampled tokens"));
  TANDEM_ASSIGN(on.stream, device.create_stream("bench"));
  return options.tune_at_start ? on.model->tune(*on.stream) : Status();
}

DeviceTier& ExecutorBench::tier() const {
  return straight_ != nullptr ? *straight_->tier : executor_->tier();
}

const AdapterLease& ExecutorBench::lease(int set, std::int32_t sequence) const {
  const std::vector<std::int32_t>& of = options_.sets[static_cast<std::size_t>(set)].of_sequence;
  const auto index = static_cast<std::size_t>(sequence);
  return leases_[static_cast<std::size_t>(set)]
                [of.empty() ? index : static_cast<std::size_t>(of[index])];
}

const Model& ExecutorBench::model() const {
  return straight_ != nullptr ? *straight_->model : executor_->model();
}

// On the host one thread makes all adapters: each thread's heap keeps the memory that it took, and
// the process's memory is one of the measured figures.
Status ExecutorBench::load_adapters(bool on_gpu) {
  const std::vector<DummyAdapter> wanted = wanted_adapters();
  if (on_gpu) TANDEM_TRY(add_dummy_adapters(*adapters_, spec_, model().dtype(), wanted, {}));
  for (std::size_t i = 0; !on_gpu && i < wanted.size(); ++i) {
    const DummyAdapter& each = wanted[i];
    Adapter made =
        make_dummy_adapter(spec_, model().dtype(), each.rank, each.modules, i + 1, each.whole);
    TANDEM_TRY(adapters_->add(each.name, std::move(made), false, false));
  }
  for (std::size_t s = 0; s < options_.sets.size(); ++s) {
    std::vector<AdapterLease>& leases = leases_.emplace_back();
    for (std::int32_t i = 0; i < options_.sets[s].count; ++i) {
      leases.push_back(adapters_->find(adapter_name(s, i)));
      while (tier().start(leases.back()) != DeviceTier::Start::on_its_way) {
        TANDEM_TRY(tier().finish_loads());
      }
      tier().holds().keep(*leases.back());
    }
  }
  return tier().finish_loads();
}

// The caches are computed, not filled with random numbers, so that attention reads realistic
// values.
Status ExecutorBench::fill_caches() {
  std::mt19937_64 random(options_.seed);
  std::uniform_int_distribution<TokenId> any(0, static_cast<TokenId>(spec_.vocab_size) - 1);
  for (std::int32_t i = 0; i <= options_.batch; ++i) {
    const std::int32_t count = i < options_.batch ? options_.context + 1 : options_.prefill_tokens;
    std::vector<TokenId>& tokens = tokens_.emplace_back();
    for (std::int32_t t = 0; t < count; ++t) tokens.push_back(any(random));
    BlockTable table(*pool_);
    TANDEM_CHECK(table.reserve(count), "the pool was sized for this");
    tables_.push_back(std::move(table));
  }
  const std::int32_t most = model().limits().max_rows;
  for (std::int32_t i = 0; i < options_.batch; ++i) {
    for (std::int32_t done = 0; done < options_.context; done += most) {
      StepPlan plan;
      add(plan, i, done, std::min(most, options_.context - done), kNoAdapters);
      TANDEM_TRY(run(plan, 1));
    }
  }
  return {};
}

void ExecutorBench::add(StepPlan& plan, std::int32_t sequence, std::int32_t start,
                        std::int32_t count, int set) const {
  const auto index = static_cast<std::size_t>(sequence);
  const auto first = tokens_[index].begin() + start;
  std::vector<PageId> pages;
  for (std::int32_t group = 0; group < tables_[index].num_groups(); ++group) {
    const std::span<const PageId> of_group = tables_[index].pages(group);
    pages.insert(pages.end(), of_group.begin(), of_group.end());
  }
  StepPlan::Entry entry;
  entry.id = static_cast<std::uint64_t>(sequence);
  entry.start = start;
  entry.tokens = range_after(plan.tokens.size(), count);
  entry.pages = range_after(plan.pages.size(), static_cast<std::int32_t>(pages.size()));
  entry.samples = range_after(plan.samples.size(), 1);
  if (set >= 0) entry.adapter = tier().slot(*lease(set, sequence));
  plan.tokens.insert(plan.tokens.end(), first, first + count);
  plan.pages.insert(plan.pages.end(), pages.begin(), pages.end());
  StepPlan::Sample& sample = plan.samples.emplace_back();
  sample.row = count - 1;
  sample.how.num_logprobs = 0;
  plan.entries.push_back(entry);
}

StepPlan ExecutorBench::decode_plan(std::int32_t first, std::int32_t batch, int set) const {
  StepPlan plan;
  for (std::int32_t i = first; i < first + batch; ++i) add(plan, i, options_.context, 1, set);
  return plan;
}

StepPlan ExecutorBench::prompt_plan(std::int32_t start, std::int32_t count) const {
  StepPlan plan;
  add(plan, options_.batch, start, count, kNoAdapters);
  return plan;
}

Status ExecutorBench::run(const StepPlan& plan, int steps) {
  if (straight_ != nullptr) {
    for (int step = 0; step < steps; ++step) TANDEM_TRY(straight_->enqueue(plan, true, true));
    return straight_->stream->synchronize();
  }
  for (int enqueued = 0; enqueued < steps || !executor_->empty();) {
    if (enqueued < steps && !executor_->full()) {
      executor_->enqueue(plan);
      ++enqueued;
      continue;
    }
    Status status = executor_->wait().status;
    if (status.ok()) continue;
    while (!executor_->empty()) (void)executor_->wait();  // the outcome does not matter
    return status;
  }
  executor_->times().rest();
  return {};
}

Result<double> ExecutorBench::time(const StepPlan& plan) {
  const TimePoint start = clock_.now();
  TANDEM_TRY(run(plan, options_.steps_per_sample));
  return seconds_between(start, clock_.now()) / options_.steps_per_sample;
}

Result<double> ExecutorBench::decode(std::int32_t batch, int set) {
  return time(decode_plan(0, batch, set));
}

Result<double> ExecutorBench::prefill(std::int32_t tokens) {
  return time(prompt_plan(0, tokens));
}

Result<std::vector<SampledToken>> ExecutorBench::sampled(std::int32_t batch, int set) {
  executor_->enqueue(decode_plan(0, batch, set));
  const StepResult result = executor_->wait();
  executor_->times().rest();
  if (!result.status.ok()) return result.status;
  return std::vector<SampledToken>(result.samples.begin(), result.samples.end());
}

Result<std::vector<float>> ExecutorBench::decode_logits(std::int32_t first, std::int32_t batch,
                                                        int set, bool recorded) {
  return straight_->logits(decode_plan(first, batch, set), recorded);
}

Result<std::vector<float>> ExecutorBench::prefill_logits(std::int32_t start, std::int32_t count) {
  return straight_->logits(prompt_plan(start, count), false);
}

double ExecutorBench::weight_bytes_read() const {
  auto bytes = static_cast<double>(model().weight_bytes());
  if (!spec_.tie_word_embeddings) {
    const std::int64_t vocab = vocab_of_shard(spec_, {0, num_devices_}).count;
    bytes -= static_cast<double>(vocab * spec_.hidden_size) *
             static_cast<double>(size_of(model().dtype()));
  }
  return bytes;
}

double ExecutorBench::decode_bytes(std::int32_t batch, int set) const {
  const ModelSpec& shape = model().spec();
  const double kv = static_cast<double>(batch) * (options_.context + 1) * 2 *
                    static_cast<double>(shape.all_keys()) *
                    static_cast<double>(size_of(model().dtype()));
  double adapters = 0;
  std::set<const void*> counted;
  for (std::int32_t i = 0; set >= 0 && i < batch; ++i) {
    const auto& adapter = *lease(set, i);
    if (counted.insert(&adapter).second) adapters += static_cast<double>(adapter.device_bytes());
  }
  return weight_bytes_read() + kv + adapters;
}

double ExecutorBench::linear_flops(std::int32_t tokens) const {
  const ModelSpec& c = model().spec();
  std::int64_t columns = 2 * c.all_keys();
  for (const LayerSpec& layer : c.layers) {
    columns += 2 * layer.attention.q_size() + 3 * layer.mlp.size;
  }
  return 2.0 * tokens * static_cast<double>(c.hidden_size * columns) +
         2.0 * static_cast<double>(c.hidden_size * c.vocab_size);
}

// Attention is causal: a token attends to half of the others on average, in q k^T and in its
// product with v.
double ExecutorBench::attention_flops(std::int32_t tokens) const {
  const ModelSpec& c = model().spec();
  std::int64_t columns = 0;
  for (const LayerSpec& layer : c.layers) columns += layer.attention.q_size();
  return 2.0 * tokens * tokens * static_cast<double>(columns);
}

std::size_t ExecutorBench::device_bytes() const {
  const auto pages = static_cast<std::size_t>(pool_->shape().num_pages - pool_->num_free());
  return model().weight_bytes() + model().workspace_bytes() + pages * layout_.page_bytes;
}

}  // namespace tandem
