#include "engine/model/llama.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "engine/model/llama_step.h"
#include "engine/model/rope_table.h"

namespace tandem {
namespace {

// Copies host data to fresh device memory at load time.
Result<Buffer> upload(Device& device, const void* data, std::size_t bytes,
                      std::string_view purpose) {
  TANDEM_ASSIGN(Buffer target, device.allocate(bytes, purpose));
  TANDEM_ASSIGN(const Buffer staging, device.allocate_pinned(bytes, purpose));
  TANDEM_ASSIGN(const auto stream, device.create_stream("upload"));
  std::memcpy(staging.data(), data, bytes);
  stream->copy_to_device(target.data(), staging.data(), bytes);
  TANDEM_TRY(stream->synchronize());
  return target;
}

constexpr std::string_view kWorkspace =
    "the work space (lower max_num_batched_tokens or max_num_seqs)";

// Views of device memory, one after another. With a null base it only measures.
class Cutter {
 public:
  explicit Cutter(std::byte* base) : base_(base) {}
  TensorView take(DType type, std::int64_t rows, std::int64_t cols) {
    const TensorView view(base_ + offset_, type, {rows, cols});
    offset_ += (static_cast<std::size_t>(rows * cols) * size_of(type) + 255) / 256 * 256;
    return view;
  }
  std::size_t bytes() const { return offset_; }

 private:
  std::byte* base_;
  std::size_t offset_ = 0;
};

// Columns of a rank's share of v, of the projection with most modules.
std::int64_t width_of_share(const ModelLimits& limits, std::int32_t num_shares) {
  return std::int64_t{LoraModules::kMaxModules} * lora_share(limits.max_lora_rank, num_shares);
}

}  // namespace

LlamaModel::Workspace LlamaModel::lay_out_workspace(const ModelConfig& c, Shard shard, DType dtype,
                                                    const ModelLimits& limits, std::byte* base,
                                                    std::size_t& bytes) {
  Cutter cutter(base);
  const auto take = [&](DType type, std::int64_t rows, std::int64_t cols) {
    return cutter.take(type, rows, cols);
  };
  const std::int64_t rows = limits.max_rows;
  Workspace work;
  work.residual = take(DType::f32, rows, c.hidden_size);
  work.x = take(dtype, std::max<std::int64_t>(rows, limits.max_samples), c.hidden_size);
  work.qkv = take(dtype, rows, c.q_size() + 2 * c.kv_size());
  work.attention = take(dtype, rows, c.q_size());
  work.gate_up = take(dtype, rows, 2 * c.ffn_size);
  work.activation = take(dtype, rows, c.ffn_size);
  work.sampled = take(DType::f32, limits.max_samples, c.hidden_size);
  work.logits = take(DType::f32, limits.max_samples, c.vocab_size);
  if (!shard.is_whole()) {
    work.v = take(DType::f32, limits.max_samples, shard.size * width_of_share(limits, shard.size));
  }
  bytes = cutter.bytes();
  return work;
}

LlamaModel::Shared LlamaModel::lay_out_shared(const ModelConfig& c, Shard shard,
                                              const ModelLimits& limits, std::byte* base,
                                              std::size_t& bytes) {
  Cutter cutter(base);
  Shared shared;
  for (TensorView* part : {&shared.embedded, &shared.attended, &shared.fed}) {
    *part = cutter.take(DType::f32, limits.max_rows, c.hidden_size);
  }
  shared.logits = cutter.take(DType::f32, limits.max_samples, vocab_of_shard(c, shard).count);
  shared.share_of_v =
      cutter.take(DType::f32, limits.max_samples, width_of_share(limits, shard.size));
  shared.part_of_v =
      cutter.take(DType::f32, limits.max_samples, lora_share(limits.max_lora_rank, 1));
  bytes = cutter.bytes();
  return shared;
}

std::size_t LlamaModel::workspace_bytes(const ModelConfig& config, Shard shard, DType dtype,
                                        const ModelLimits& limits) {
  std::size_t work = 0;
  std::size_t shared = 0;
  lay_out_workspace(shape_of_shard(config, shard.size), shard, dtype, limits, nullptr, work);
  if (!shard.is_whole()) lay_out_shared(config, shard, limits, nullptr, shared);
  return work + shared;
}

Result<std::unique_ptr<LlamaModel>> LlamaModel::load(const ModelConfig& config,
                                                     const WeightSource& source, DType dtype,
                                                     const ModelLimits& limits, Device& device,
                                                     const LoadProgress& progress,
                                                     Communicator* communicator) {
  TANDEM_CHECK(limits.max_rows > 0 && limits.max_samples > 0 && limits.max_positions > 0);
  Shard shard;
  if (communicator != nullptr) shard = {communicator->rank(), communicator->size()};
  TANDEM_TRY(check_shards(config, shard.size));
  std::unique_ptr<LlamaModel> model(new LlamaModel());
  model->config_ = shape_of_shard(config, shard.size);
  model->communicator_ = shard.is_whole() ? nullptr : communicator;
  model->shard_ = shard;
  model->vocab_ = vocab_of_shard(config, shard);
  model->dtype_ = dtype;
  model->limits_ = limits;
  std::size_t bytes = 0;
  lay_out_workspace(model->config_, shard, dtype, limits, nullptr, bytes);
  TANDEM_ASSIGN(model->workspace_, device.allocate(bytes, kWorkspace));
  model->work_ =
      lay_out_workspace(model->config_, shard, dtype, limits, model->workspace_.data(), bytes);
  if (!shard.is_whole()) TANDEM_TRY(model->make_shared(config, shard));

  const std::vector<float> table =
      make_rope_table(config.rope, config.head_dim, limits.max_positions);
  TANDEM_ASSIGN(model->rope_, upload(device, table.data(), table.size() * sizeof(float),
                                     "the rotary embedding's table"));
  model->rope_view_ =
      TensorView(model->rope_.data(), DType::f32, {limits.max_positions, 2, config.head_dim / 2});
  TANDEM_ASSIGN(model->weights_,
                ModelWeights::load(config, shard, source, dtype, device, progress));
  return model;
}

Status LlamaModel::make_shared(const ModelConfig& config, Shard shard) {
  std::size_t bytes = 0;
  lay_out_shared(config, shard, limits_, nullptr, bytes);
  TANDEM_ASSIGN(shared_memory_, communicator_->allocate(bytes, kWorkspace));
  shared_ = lay_out_shared(config, shard, limits_, shared_memory_.data(), bytes);
  return {};
}

TensorView LlamaModel::logits(std::int32_t num_samples) const {
  return work_.logits.slice_rows(0, num_samples);
}

void LlamaModel::forward(Stream& stream, const StepInput& input, const KvCache& cache,
                         const AdapterTable& adapters, const StepHandoff* handoff) {
  plan_attention(stream, input, cache);
  compute(stream, input, cache, adapters, handoff);
}

// The work space, cut to the step's rows.
LlamaModel::Step LlamaModel::cut(Stream& stream, const StepInput& input, const KvCache& cache,
                                 const AdapterTable& adapters, const StepHandoff* handoff) const {
  TANDEM_CHECK(input.num_rows <= limits_.max_rows && input.num_logits <= limits_.max_samples);
  TANDEM_CHECK(input.max_rank <= limits_.max_lora_rank, "rank {}", input.max_rank);
  TANDEM_CHECK(input.halved == SiteSet() ||
                   (communicator_ != nullptr && input.num_rows <= limits_.max_samples),
               "{} rows, halved", input.num_rows);
  Step step{stream, input, cache, adapters, work_, shared_, handoff, {}};
  if (handoff != nullptr) {
    step.job = handoff->job;
    step.job.rows = input.lora_rows;
    step.job.segments = input.segments;
  }
  for (TensorView* view : {&step.work.residual, &step.work.x, &step.work.qkv, &step.work.attention,
                           &step.work.gate_up, &step.work.activation}) {
    *view = view->slice_rows(0, input.num_rows);
  }
  if (communicator_ != nullptr) {
    for (TensorView* view : {&step.shared.embedded, &step.shared.attended, &step.shared.fed}) {
      *view = view->slice_rows(0, input.num_rows);
    }
  }
  return step;
}

void LlamaModel::compute(Stream& stream, const StepInput& input, const KvCache& cache,
                         const AdapterTable& adapters, const StepHandoff* handoff) {
  if (input.num_rows == 0) return;
  Step step = cut(stream, input, cache, adapters, handoff);
  // Ranks of a model of one layer would meet but once, and what they show is written again too
  // soon.
  step.drops_rows = config_.num_layers > 1 && may_drop_rows(step);
  begin(step);
  for (std::int64_t layer = 0; layer < config_.num_layers; ++layer) {
    if (adapters.waits != nullptr) adapters.waits->before(layer, stream);
    compute_layer(step, layer);
  }
  end(step);
}

// What follows the last layer's attention is for the rows that get logits alone: of a prompt one,
// of a piece of a prompt none. Halves of adapters and workers have what is theirs by rows of all
// the step; a recording is of as many rows in every layer.
bool LlamaModel::may_drop_rows(const Step& step) const {
  const StepInput& input = step.input;
  // Half at least, for gathering them costs, too; a row may get logits more than once.
  if (input.padded || 2 * input.num_logits > input.num_rows) return false;
  if (input.num_segments == 0) return true;
  return std::ranges::none_of(std::array{Site::o, Site::gate_up, Site::down}, [&](Site site) {
    return input.halved.has(site) || is_offered(step.handoff, config_.num_layers - 1, site);
  });
}

void LlamaModel::compute_layer(Step& step, std::int64_t layer) {
  const bool drops = step.drops_rows && layer + 1 == config_.num_layers;
  append(step, layer);
  if (drops && step.input.num_logits == 0) return;
  attend(step, layer);
  if (drops) drop_rows(step);
  attention_out(step, layer);
  mlp_block(step, layer);
}

void LlamaModel::drop_rows(Step& step) const {
  StepInput& input = step.input;
  const std::int32_t rows = input.num_logits;
  const TensorView sampled = work_.sampled.slice_rows(0, rows);
  const TensorView attention(step.work.qkv.data, dtype_,  // where q has been read
                             {rows, config_.q_size()});
  step.stream.gather_rows({step.work.residual, input.sample_rows, sampled});
  step.stream.gather_rows({step.work.attention, input.sample_rows, attention});
  input.lora_rows = input.sampled_lora_rows;
  input.num_lora_rows = input.num_sampled_lora_rows;
  input.segments = input.sampled_segments;
  input.num_segments = input.num_sampled_segments;
  input.max_count = input.max_sampled_count;
  step.work.residual = sampled;
  step.work.attention = attention;
  for (TensorView* view : {&step.work.x, &step.work.gate_up, &step.work.activation}) {
    *view = view->slice_rows(0, rows);
  }
  if (communicator_ == nullptr) return;
  for (TensorView* view : {&step.shared.attended, &step.shared.fed}) {
    *view = view->slice_rows(0, rows);
  }
}

// Only the rows that somebody will read go through the head.
void LlamaModel::end(Step& step) {
  const StepInput& input = step.input;
  if (input.num_logits == 0) return;
  const TensorView sampled = work_.sampled.slice_rows(0, input.num_logits);
  const TensorView normed = work_.x.slice_rows(0, input.num_logits);
  if (!step.drops_rows) {
    step.stream.gather_rows({step.work.residual, input.sample_rows, sampled});
  }
  step.stream.rms_norm(
      {sampled, weights_.final_norm(), static_cast<float>(config_.rms_norm_eps), normed});
  const TensorView all = logits(input.num_logits);
  if (communicator_ == nullptr) {
    step.stream.gemm({normed, weights_.head(), {}, all});
    return;
  }
  const TensorView part = shared_.logits.slice_rows(0, input.num_logits);
  step.stream.gemm({normed, weights_.head(), {}, part});
  step.stream.all_gather({communicator_, part, all});
}

// The residual before the first layer, and its norm.
void LlamaModel::begin(Step& step) {
  const TensorView& weight = weights_.layer(0).input_norm;
  if (communicator_ == nullptr) {
    step.stream.embed({weights_.embedding(), step.input.ids, step.work.residual});
    join(step, {}, false, weight);
    return;
  }
  EmbedArgs embed{weights_.embedding(), step.input.ids, step.shared.embedded};
  embed.first_id = static_cast<std::int32_t>(vocab_.first);
  embed.vocab = static_cast<std::int32_t>(config_.vocab_size);
  step.stream.embed(embed);
  join(step, step.shared.embedded, false, weight);
}

void LlamaModel::join(Step& step, const TensorView& part, bool accumulate,
                      const TensorView& weight) {
  const auto eps = static_cast<float>(config_.rms_norm_eps);
  if (communicator_ != nullptr) {
    step.stream.all_reduce({communicator_, part, step.work.residual, accumulate, weight, eps,
                            weight.rank == 0 ? TensorView() : step.work.x});
  } else if (weight.rank != 0) {
    step.stream.rms_norm({step.work.residual, weight, eps, step.work.x});
  }
}

Status LlamaModel::tune(Stream& stream) {
  const auto with_every_layer = [&](TensorView LayerWeights::*weight,
                                    TensorView LayerWeights::*bias, const TensorView& y,
                                    bool accumulate) {
    // Rows of weights stand for x: numbers as they may be there, which is what power depends on.
    const TensorView& first = weights_.layer(0).*weight;
    const std::int64_t rows = std::min(y.rows(), first.rows());
    std::vector<GemmArgs> like;
    for (std::int64_t layer = 0; layer < config_.num_layers; ++layer) {
      const LayerWeights& w = weights_.layer(layer);
      like.push_back({first.slice_rows(0, rows), w.*weight,
                      bias == nullptr ? TensorView() : w.*bias, y.slice_rows(0, rows), accumulate});
    }
    return stream.tune_gemm(like);
  };
  TANDEM_TRY(with_every_layer(&LayerWeights::qkv, &LayerWeights::qkv_bias, work_.qkv, false));
  const bool whole = communicator_ == nullptr;
  TANDEM_TRY(with_every_layer(&LayerWeights::o, &LayerWeights::o_bias,
                              whole ? work_.residual : shared_.attended, whole));
  TANDEM_TRY(with_every_layer(&LayerWeights::gate_up, nullptr, work_.gate_up, false));
  TANDEM_TRY(
      with_every_layer(&LayerWeights::down, nullptr, whole ? work_.residual : shared_.fed, whole));
  const TensorView& head = weights_.head();
  const TensorView& y = whole ? work_.logits : shared_.logits;
  const std::int64_t rows = std::min(y.rows(), head.rows());
  const GemmArgs like{head.slice_rows(0, rows), head, {}, y.slice_rows(0, rows)};
  return stream.tune_gemm({&like, 1});
}

void LlamaModel::plan_attention(Stream& stream, const StepInput& input,
                                const KvCache& cache) const {
  AttentionPlan plan;
  plan.heads = static_cast<std::int32_t>(config_.num_heads);
  plan.kv_heads = static_cast<std::int32_t>(config_.num_kv_heads);
  plan.head_dim = static_cast<std::int32_t>(config_.head_dim);
  plan.page_tokens = cache.page_tokens();
  plan.dtype = dtype_;
  plan.sequences = input.host_sequences;
  plan.num_sequences = input.num_sequences;
  plan.num_rows = input.num_rows;
  plan.captured = input.padded;
  stream.plan_attention(plan);
}

void LlamaModel::append(Step& step, std::int64_t layer) {
  const LayerWeights& w = weights_.layer(layer);
  const StepInput& input = step.input;
  const auto eps = static_cast<float>(config_.rms_norm_eps);
  const TensorView q = step.work.qkv.slice_cols(0, config_.q_size());
  const TensorView k = step.work.qkv.slice_cols(config_.q_size(), config_.kv_size());
  const TensorView v =
      step.work.qkv.slice_cols(config_.q_size() + config_.kv_size(), config_.kv_size());
  const TensorView q_heads = q.split_cols(config_.num_heads);
  const TensorView k_heads = k.split_cols(config_.num_kv_heads);

  project(step, layer,
          {Site::qkv, step.work.x, w.qkv, w.qkv_bias, step.work.qkv, false, {q, k, v}});
  if (config_.qk_norm) {
    step.stream.rms_norm({q_heads, w.q_norm, eps, q_heads});
    step.stream.rms_norm({k_heads, w.k_norm, eps, k_heads});
  }
  step.stream.rope_append({q_heads, k_heads, v.split_cols(config_.num_kv_heads), rope_view_,
                           input.positions, input.slots, step.cache.layer(layer)});
}

void LlamaModel::attend(Step& step, std::int64_t layer) {
  const StepInput& input = step.input;
  AttentionArgs attention;
  attention.q = step.work.qkv.slice_cols(0, config_.q_size()).split_cols(config_.num_heads);
  attention.cache = step.cache.layer(layer);
  attention.kv_heads = static_cast<std::int32_t>(config_.num_kv_heads);
  attention.sequences = input.sequences;
  attention.page_ids = input.page_ids;
  attention.num_sequences = input.num_sequences;
  attention.max_rows = input.max_rows;
  attention.max_kv_len = input.max_kv_len;
  attention.scale = 1.0F / std::sqrt(static_cast<float>(config_.head_dim));
  attention.out = step.work.attention.split_cols(config_.num_heads);
  step.stream.attention(attention);
}

void LlamaModel::attention_out(Step& step, std::int64_t layer) {
  const LayerWeights& w = weights_.layer(layer);
  const bool whole = communicator_ == nullptr;
  const TensorView& sum = whole ? step.work.residual : step.shared.attended;
  project(step, layer, {Site::o, step.work.attention, w.o, w.o_bias, sum, whole, {sum}});
  join(step, sum, true, w.post_norm);
}

void LlamaModel::mlp_block(Step& step, std::int64_t layer) {
  const LayerWeights& w = weights_.layer(layer);
  const TensorView& gate_up = step.work.gate_up;
  if (has_deltas(step, layer, Site::gate_up)) {
    project(step, layer,
            {Site::gate_up,
             step.work.x,
             w.gate_up,
             {},
             gate_up,
             false,
             {gate_up.slice_cols(0, config_.ffn_size),
              gate_up.slice_cols(config_.ffn_size, config_.ffn_size)}});
    step.stream.swiglu({gate_up, step.work.activation});
  } else {
    step.stream.gemm_swiglu({step.work.x, w.gate_up, gate_up, step.work.activation});
  }
  const bool whole = communicator_ == nullptr;
  const TensorView& sum = whole ? step.work.residual : step.shared.fed;
  project(step, layer, {Site::down, step.work.activation, w.down, {}, sum, whole, {sum}});
  const bool last = layer + 1 == config_.num_layers;
  join(step, sum, true, last ? TensorView() : weights_.layer(layer + 1).input_norm);
}

void LlamaModel::sample(Stream& stream, const StepInput& input, SampledToken* out,
                        const std::uint32_t* masks) {
  if (input.num_samples == 0) return;
  stream.sample(
      {logits(input.num_samples), input.samples, input.history, input.biases, out, masks});
}

}  // namespace tandem
