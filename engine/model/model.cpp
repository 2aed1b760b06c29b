#include "engine/model/model.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/model/layers/adapted_linear.h"
#include "engine/model/layers/embedding.h"
#include "engine/model/layers/gated_mlp.h"
#include "engine/model/layers/layer_input.h"
#include "engine/model/layers/rotary_table.h"

namespace tandem {
namespace {

// Copies host data to new device memory, when a model is loaded.
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

Status check_head_dim(const ModelSpec& spec, const Device& device) {
  std::int64_t head_dim = 0;
  for (const LayerSpec& layer : spec.layers) {
    head_dim = std::max(head_dim, layer.attention.head_dim);
  }
  if (head_dim <= device.max_head_dim()) return {};
  return invalid("the model's attention heads have size {}; {} computes sizes up to {}", head_dim,
                 device.info().name, device.max_head_dim());
}

constexpr std::string_view kWorkspace =
    "the work space (lower max_num_batched_tokens or max_num_seqs)";

}  // namespace

std::size_t Model::workspace_bytes(const ModelSpec& spec, Shard shard, DType dtype,
                                   const ModelLimits& limits) {
  std::size_t bytes = 0;
  lay_out_workspace(shape_of_shard(spec, shard.size), shard, dtype, limits, nullptr, bytes);
  if (!shard.is_whole()) lay_out_shared(spec, shard, limits, nullptr, bytes);
  return bytes;
}

Result<std::unique_ptr<Model>> Model::load(const ModelSpec& spec, const WeightSource& source,
                                           DType dtype, const ModelLimits& limits, Device& device,
                                           const LoadProgress& progress,
                                           Communicator* communicator) {
  TANDEM_CHECK(limits.max_rows > 0 && limits.max_samples > 0 && limits.max_positions > 0);
  Shard shard;
  if (communicator != nullptr) shard = {communicator->rank(), communicator->size()};
  TANDEM_TRY(check_computable(spec));
  TANDEM_TRY(check_shards(spec, shard.size));
  TANDEM_TRY(check_head_dim(spec, device));
  std::unique_ptr<Model> model(new Model());
  model->part_ = {shape_of_shard(spec, shard.size),
                  dtype,
                  shard,
                  shard.is_whole() ? nullptr : communicator,
                  vocab_of_shard(spec, shard),
                  limits.max_added_tokens};
  model->limits_ = limits;
  TANDEM_TRY(model->make_workspace(spec, device));
  TANDEM_TRY(model->make_rotary_tables(device));
  TANDEM_ASSIGN(model->weights_, ModelWeights::load(spec, shard, source, dtype, device, progress));
  return model;
}

Status Model::make_workspace(const ModelSpec& whole, Device& device) {
  std::size_t bytes = 0;
  lay_out_workspace(part_.spec, part_.shard, part_.dtype, limits_, nullptr, bytes);
  TANDEM_ASSIGN(workspace_, device.allocate(bytes, kWorkspace));
  work_ =
      lay_out_workspace(part_.spec, part_.shard, part_.dtype, limits_, workspace_.data(), bytes);
  if (part_.is_whole()) return {};
  bytes = 0;
  lay_out_shared(whole, part_.shard, limits_, nullptr, bytes);
  TANDEM_ASSIGN(shared_memory_, part_.communicator->allocate(bytes, kWorkspace));
  shared_ = lay_out_shared(whole, part_.shard, limits_, shared_memory_.data(), bytes);
  return {};
}

Status Model::make_rotary_tables(Device& device) {
  for (std::size_t i = 0; i < part_.spec.rotary.size(); ++i) {
    const RotarySpec& rotary = part_.spec.rotary[i];
    const std::int64_t head_dim = part_.spec.rotary_head_dim(i);
    const bool by_length = rotary.original_length() > 0;
    const std::vector<float> table =
        by_length ? make_rotary_choices(rotary, head_dim, limits_.max_positions)
                  : make_rotary_table(rotary, head_dim, limits_.max_positions);
    TANDEM_ASSIGN(rotary_.emplace_back(), upload(device, table.data(), table.size() * sizeof(float),
                                                 "the rotary embedding's table"));
    std::byte* const data = rotary_.back().data();
    const std::int64_t pairs = rotary.pairs(head_dim);
    const auto choices = static_cast<std::int64_t>(table.size()) / pairs;
    rotary_views_.push_back(by_length
                                ? TensorView(data, DType::f32, {choices, pairs})
                                : TensorView(data, DType::f32, {limits_.max_positions, 2, pairs}));
  }
  const QueryScale& scale = part_.spec.attention().query_scale;
  if (scale.beta == 0) return {};
  const std::vector<float> scales = make_query_scales(scale, limits_.max_positions);
  TANDEM_ASSIGN(query_scale_memory_, upload(device, scales.data(), scales.size() * sizeof(float),
                                            "the scales of queries"));
  query_scales_ = {query_scale_memory_.data(), DType::f32, {limits_.max_positions}};
  return {};
}

TensorView Model::logits(std::int32_t num_samples) const {
  return logits(num_samples, part_.spec.vocab_size);
}

TensorView Model::logits(std::int32_t rows, std::int64_t columns) const {
  return {work_.logits.data, DType::f32, {rows, columns}};
}

std::int64_t Model::logit_columns(const StepInput& input) const {
  const bool may_have_more = input.num_segments > 0 && input.adapted.has(Site::head_tokens);
  return part_.spec.vocab_size + (may_have_more ? limits_.max_added_tokens : 0);
}

void Model::forward(Stream& stream, const StepInput& input, const KvCache& cache,
                    const AdapterTable& adapters, const StepHandoff* handoff) {
  plan_attention(stream, input, cache);
  compute(stream, input, cache, adapters, handoff);
}

// Makes a LayerStep with the work space cut to the step's rows.
LayerStep Model::cut(Stream& stream, const StepInput& input, const KvCache& cache,
                     const AdapterTable& adapters, const StepHandoff* handoff) const {
  TANDEM_CHECK(input.num_rows <= limits_.max_rows && input.num_logits <= limits_.max_samples);
  TANDEM_CHECK(input.max_rank <= limits_.max_lora_rank, "rank {}", input.max_rank);
  TANDEM_CHECK(
      input.halved == SiteSet() || (!part_.is_whole() && input.num_rows <= limits_.max_samples),
      "{} rows, halved", input.num_rows);
  LayerStep step{stream,
                 part_,
                 input,
                 cache,
                 adapters,
                 work_.cut(input.num_rows),
                 part_.is_whole() ? SharedSpace() : shared_.cut(input.num_rows),
                 handoff};
  step.work.logits = logits(limits_.max_samples, logit_columns(input));
  if (handoff != nullptr) {
    step.job = handoff->job;
    step.job.rows = input.lora_rows;
    step.job.segments = input.segments;
  }
  return step;
}

void Model::compute(Stream& stream, const StepInput& input, const KvCache& cache,
                    const AdapterTable& adapters, const StepHandoff* handoff) {
  if (input.num_rows == 0) return;
  LayerStep step = cut(stream, input, cache, adapters, handoff);
  const std::int64_t num_layers = part_.spec.num_layers();
  // If a step ended in the first layer, ranks would synchronise only once, and their shared memory
  // would be overwritten too soon.
  step.drops_rows = first_with_fewer_rows(step) > 0 && may_drop_rows(step);
  const bool ends_early = step.drops_rows && input.num_logits == 0;
  compute_angles(step);
  // A layer's first norm is computed at the end of the layer before.
  const std::int64_t ahead = adapts(step, Site::attention_norm) ? 1 : 0;
  std::int64_t waited = 0;
  const auto wait_for = [&](std::int64_t layer) {
    for (; adapters.waits != nullptr && waited <= std::min(layer, num_layers - 1); ++waited) {
      adapters.waits->before(waited, stream);
    }
  };
  wait_for(0);  // it has the embedding, too
  embed(step, weights_, input_of_attention(layer(0)));
  if (part_.spec.layer_input_size() > 0) keep_embedding(step);
  for (std::int64_t index = 0; index < num_layers; ++index) {
    wait_for(index + ahead);
    if (ends_early && index > first_with_fewer_rows(step)) continue;  // loads are waited for alike
    compute_layer(step, index);
  }
  if (input.num_logits > 0) head(step, weights_, work_.sampled.slice_rows(0, input.num_logits));
}

// The angles of the step's rows by the rotary embedding that depends on lengths, if there is one.
void Model::compute_angles(const LayerStep& step) const {
  for (std::size_t i = 0; i < rotary_views_.size(); ++i) {
    const RotarySpec& rotary = part_.spec.rotary[i];
    if (rotary.original_length() == 0) continue;
    step.stream.rotary_angles({rotary_views_[i], step.input.positions, step.input.lengths,
                               static_cast<std::int32_t>(rotary.original_length()),
                               static_cast<float>(rotary.attention_factor), step.work.angles});
  }
}

RotaryTable Model::rotary_of(const LayerStep& step, const AttentionSpec& attention) const {
  if (attention.rotary == AttentionSpec::kNoRotary) return {{}, false, query_scales_};
  const bool by_length = part_.spec.rotary[attention.rotary].original_length() > 0;
  return {by_length ? step.work.angles : rotary_views_[attention.rotary], by_length, query_scales_};
}

void Model::compute_layer(LayerStep& step, std::int64_t index) const {
  const Layer layer = this->layer(index);
  const bool last = index + 1 == part_.spec.num_layers();
  const bool drops = step.drops_rows && index == first_with_fewer_rows(step);
  const std::int64_t part = layer.spec.input.size;
  if (part > 0) step.layer_input = step.work.layer_inputs.slice_cols(index * part, part);
  append_keys(step, layer, rotary_of(step, layer.spec.attention));
  if (drops && step.input.num_logits == 0) return;
  attend(step, layer);
  if (drops) drop_rows(step, layer);
  attention_out(step, layer);
  const BlockInput next = last ? BlockInput{{}, false} : input_of_attention(this->layer(index + 1));
  gated_mlp(step, layer, next);
  if (layer.spec.input.makes_parts) make_layer_inputs(step, layer, weights_.layer_inputs());
  if (part > 0) add_layer_input(step, layer, next);
}

// After the last layer's attention, only rows with logits are needed: one for a prompt. Of a piece
// of a prompt, which has none, nothing is needed behind the last keys.
std::int64_t Model::first_with_fewer_rows(const LayerStep& step) const {
  return step.input.num_logits == 0 ? part_.spec.last_layer_with_keys()
                                    : part_.spec.num_layers() - 1;
}

// Halved adapters and workers use row numbers of the whole step, and a graph has the same number of
// rows in every layer, so none of these may drop rows.
bool Model::may_drop_rows(const LayerStep& step) const {
  const StepInput& input = step.input;
  // At least half must be dropped, as gathering the others costs time; a row may get logits twice.
  if (input.padded || 2 * input.num_logits > input.num_rows) return false;
  if (input.num_segments == 0) return true;
  const std::int64_t first = first_with_fewer_rows(step);
  for (std::int64_t layer = first; layer < part_.spec.num_layers(); ++layer) {
    for (std::size_t s = 0; s < part_.spec.modules.num_sites(); ++s) {
      const auto site = static_cast<Site>(s);
      if (layer == first && site == Site::qkv) continue;
      if (input.halved.has(site) || is_offered(step.handoff, layer, site)) return false;
    }
  }
  return true;
}

void Model::drop_rows(LayerStep& step, const Layer& layer) const {
  StepInput& input = step.input;
  const std::int32_t rows = input.num_logits;
  const TensorView sampled = work_.sampled.slice_rows(0, rows);
  // q has been read, so its memory has room for the gathered attention.
  const TensorView attention(step.work.qkv.data, part_.dtype,
                             {rows, layer.spec.attention.q_size()});
  step.stream.gather_rows({step.work.residual, input.sample_rows, sampled});
  step.stream.gather_rows(
      {step.work.attention.slice_cols(0, attention.cols()), input.sample_rows, attention});
  if (layer.spec.input.size > 0) {
    // The part of the first layer has been read.
    const TensorView part =
        step.work.layer_inputs.slice_rows(0, rows).slice_cols(0, layer.spec.input.size);
    step.stream.gather_rows({step.layer_input, input.sample_rows, part});
    step.layer_input = part;
  }
  input.lora_rows = input.sampled_lora_rows;
  input.num_lora_rows = input.num_sampled_lora_rows;
  input.segments = input.sampled_segments;
  input.num_segments = input.num_sampled_segments;
  input.max_count = input.max_sampled_count;
  input.row_slots = input.sampled_slots;
  step.work = step.work.cut(rows);
  step.work.residual = sampled;
  step.work.attention = attention;
  if (!part_.is_whole()) step.shared = step.shared.cut(rows);
  if (layer.spec.parallel) make_input(step, input_of_attention(layer));  // the feed-forward part's
}

TensorView Model::states(std::int32_t num_samples) const {
  return {work_.x.data, part_.dtype, {num_samples, part_.spec.hidden_size}};
}

Status Model::tune(Stream& stream) {
  const TensorView& embedding = weights_.embedding().data;
  // Rows of weights serve as x: the power that a product draws depends on the numbers, and these
  // are realistic. Where a product may have more rows than its weight, the embedding's serve.
  const auto rows_like = [&](const TensorView& weight, std::int64_t rows) {
    const bool takes_embedding = weight.rows() < rows && weights_.embedding().is_dense() &&
                                 weight.cols() == embedding.cols();
    const TensorView& from = takes_embedding ? embedding : weight;
    return from.slice_rows(0, std::min(rows, from.rows()));
  };
  // Packed weights have nothing to choose from, but their kernels are loaded here, too, with any x.
  std::vector<WeightForm> forms;
  const auto load_kernels = [&](const Weight& weight, const TensorView& y) -> Status {
    if (std::ranges::find(forms, weight.form) != forms.end()) return {};
    forms.push_back(weight.form);
    for (const TensorView* const input : {&work_.x, &work_.attention, &work_.activation}) {
      if (input->cols() < weight.cols()) continue;
      const TensorView x =
          input->slice_rows(0, std::min(input->rows(), y.rows())).slice_cols(0, weight.cols());
      const GemmArgs like{x, weight, {}, y.slice_rows(0, x.rows()).slice_cols(0, weight.rows())};
      return stream.tune_gemm({&like, 1});
    }
    return {};
  };
  // Layers whose weights have one shape are tuned together.
  const auto with_every_layer = [&](WeightStack LayerWeights::*weight,
                                    TensorView LayerWeights::*bias, const TensorView& y,
                                    bool accumulate) -> Status {
    std::map<std::pair<std::int64_t, std::int64_t>, std::vector<GemmArgs>> by_shape;
    for (std::int64_t index = 0; index < part_.spec.num_layers(); ++index) {
      const LayerWeights& w = weights_.layer(index);
      std::int64_t first = 0;
      for (const Weight& part : (w.*weight).parts) {
        const std::int64_t columns = part.rows();
        const std::int64_t begin = std::exchange(first, first + columns);
        if (!part.is_dense()) {
          TANDEM_TRY(load_kernels(part, y));
          continue;
        }
        std::vector<GemmArgs>& like = by_shape[{columns, part.cols()}];
        const TensorView x = rows_like(like.empty() ? part.data : like.front().w.data, y.rows());
        const TensorView all = bias == nullptr ? TensorView() : w.*bias;
        like.push_back({x, part, all.rank == 0 ? all : all.slice_cols(begin, columns),
                        y.slice_rows(0, x.rows()).slice_cols(0, columns), accumulate});
      }
    }
    for (const auto& [shape, like] : by_shape) TANDEM_TRY(stream.tune_gemm(like));
    return {};
  };
  const bool whole = part_.is_whole();
  const bool adds = whole && work_.sum.rank == 0;
  const auto end_of_block = [&](const TensorView& part) {
    return !whole ? part : adds ? work_.residual : work_.sum;
  };
  TANDEM_TRY(with_every_layer(&LayerWeights::qkv, &LayerWeights::qkv_bias, work_.qkv, false));
  TANDEM_TRY(with_every_layer(&LayerWeights::o, &LayerWeights::o_bias,
                              end_of_block(shared_.attended), adds));
  TANDEM_TRY(with_every_layer(&LayerWeights::gate_up, nullptr, work_.gate_up, false));
  TANDEM_TRY(with_every_layer(&LayerWeights::down, nullptr, end_of_block(shared_.fed), adds));
  if (part_.spec.layer_input_size() > 0) {
    TANDEM_TRY(with_every_layer(&LayerWeights::input_gate, nullptr, work_.input_gate, false));
    TANDEM_TRY(with_every_layer(&LayerWeights::input_projection, nullptr, work_.sum, false));
    const Weight& projection = weights_.layer_inputs().projection.front();
    if (projection.is_dense()) {
      const TensorView x = rows_like(projection.data, work_.projected.rows());
      const GemmArgs like{x, projection, {}, work_.projected.slice_rows(0, x.rows())};
      TANDEM_TRY(stream.tune_gemm({&like, 1}));
    }
  }
  const Weight& head = weights_.head();
  if (!head.is_dense()) return {};
  const TensorView y = whole ? logits(limits_.max_samples) : shared_.logits;
  const TensorView x = rows_like(head.data, y.rows());
  const GemmArgs like{x, head, {}, y.slice_rows(0, x.rows())};
  return stream.tune_gemm({&like, 1});
}

void Model::plan_attention(Stream& stream, const StepInput& input, const KvCache& cache) const {
  std::vector<AttentionPlan> plans;
  for (const LayerSpec& layer : part_.spec.layers) {
    const AttentionSpec& attention = layer.attention;
    AttentionPlan plan;
    plan.heads = static_cast<std::int32_t>(attention.heads);
    plan.kv_heads = static_cast<std::int32_t>(attention.kv_heads);
    plan.head_dim = static_cast<std::int32_t>(attention.head_dim);
    plan.page_tokens = cache.page_tokens();
    plan.dtype = part_.dtype;
    plan.sequences = input.host_sequences;
    plan.num_sequences = input.num_sequences;
    plan.num_rows = input.num_rows;
    plan.captured = input.padded;
    auto like = std::ranges::find_if(plans, [&](const AttentionPlan& other) {
      return other.heads == plan.heads && other.kv_heads == plan.kv_heads &&
             other.head_dim == plan.head_dim;
    });
    if (like == plans.end()) {
      if (plans.size() == kAttentionPlans) continue;
      like = plans.insert(plans.end(), plan);
    }
    like->sinks = like->sinks || attention.sinks;
    like->bounded =
        like->bounded || like->sinks || window_in(input, attention) != 0 || attention.softcap != 0;
  }
  for (const AttentionPlan& plan : plans) stream.plan_attention(plan);
}

void Model::sample(Stream& stream, const StepInput& input, SampledToken* out,
                   const std::uint32_t* masks) {
  if (input.num_samples == 0) return;
  stream.sample({logits(input.num_samples, logit_columns(input)), input.samples, input.history,
                 input.biases, out, masks});
}

}  // namespace tandem
