#include "engine/model/layers/attention.h"

#include <cmath>

#include "engine/model/layers/adapted_linear.h"
#include "engine/model/layers/adapted_norm.h"
#include "engine/model/layers/residual.h"
#include "engine/model/spec/spread.h"

namespace tandem {
namespace {

// Lets the norms of this rank's queries and keys be those of the heads of all ranks.
void add_up_squares(LayerStep& step, const AttentionSpec& spec, RmsNormArgs& q, RmsNormArgs& k) {
  const TensorView& part = step.shared.squares;
  const TensorView& sum = step.work.squares;
  step.stream.sum_squares({q.x, part.slice_cols(0, 1)});
  if (spec.has_keys()) step.stream.sum_squares({k.x, part.slice_cols(1, 1)});
  step.stream.all_reduce({step.part.communicator, part, sum, false, {}, 0, {}});
  q.squares = sum.slice_cols(0, 1);
  q.width = queries_of_all(spec, step.part.shard.size);
  k.squares = sum.slice_cols(1, 1);
  k.width = keys_of_all(spec, step.part.shard.size);
}

}  // namespace

void append_keys(LayerStep& step, const Layer& layer, const RotaryTable& rotary) {
  const AttentionSpec& spec = layer.spec.attention;
  const LayerWeights& w = layer.weights;
  const TensorView qkv = step.work.qkv.slice_cols(0, spec.q_size() + 2 * spec.kv_size());
  const TensorView q = qkv.slice_cols(0, spec.q_size());
  const TensorView k = qkv.slice_cols(spec.q_size(), spec.kv_size());
  const TensorView v = qkv.slice_cols(spec.q_size() + spec.kv_size(), spec.kv_size());
  const TensorView q_heads = q.split_cols(spec.heads);
  const TensorView k_heads = k.split_cols(spec.kv_heads);

  const TensorView product = qkv.slice_cols(0, w.qkv.rows());
  run(step, {layer.index, Site::qkv, step.work.x, w.qkv, w.qkv_bias, product, false, {q, k, v}});
  if (spec.v_norm && spec.has_keys()) {
    const TensorView v_heads = v.split_cols(spec.kv_heads);
    step.stream.rms_norm(
        {spec.keys_as_values ? k_heads : v_heads, {}, step.part.norm_eps(), v_heads});
  }
  if (spec.qk_norm != QkNorm::none) {
    const bool by_head = spec.qk_norm == QkNorm::head;
    const TensorView& normed_q = by_head ? q_heads : q;
    const TensorView& normed_k = by_head ? k_heads : k;
    RmsNormArgs q_norm{normed_q, {}, step.part.norm_eps(), normed_q};
    RmsNormArgs k_norm{normed_k, {}, step.part.norm_eps(), normed_k};
    if (!by_head && !step.part.is_whole()) add_up_squares(step, spec, q_norm, k_norm);
    run(step, {w.q_norm, layer.index, Site::qk_norm}, q_norm);
    if (spec.has_keys()) run(step, {w.k_norm, layer.index, Site::qk_norm, 1}, k_norm);
  }
  RopeAppendArgs args{q_heads,
                      spec.has_keys() ? k_heads : TensorView(),
                      spec.has_keys() ? v.split_cols(spec.kv_heads) : TensorView(),
                      rotary.cos_sin,
                      rotary.of_rows ? nullptr : step.input.positions,
                      step.input.slots_of(step.cache.group(layer.index)),
                      step.cache.layer(layer.index)};
  args.interleaved = rotary.cos_sin.rank != 0 && step.part.spec.rotary[spec.rotary].interleaved;
  if (spec.query_scale.beta != 0) args.q_scale = rotary.q_scale;
  step.stream.rope_append(args);
}

std::int32_t window_in(const StepInput& input, const AttentionSpec& spec) {
  if (input.max_kv_len <= spec.window) return 0;
  return static_cast<std::int32_t>(spec.window);
}

void attend(LayerStep& step, const Layer& layer) {
  const AttentionSpec& spec = layer.spec.attention;
  const StepInput& input = step.input;
  AttentionArgs args;
  args.q = step.work.qkv.slice_cols(0, spec.q_size()).split_cols(spec.heads);
  args.cache = step.cache.layer(layer.index);
  args.kv_heads = static_cast<std::int32_t>(spec.kv_heads);
  args.sequences = input.sequences;
  args.page_ids = input.page_ids_of(step.cache.group(layer.index));
  args.num_sequences = input.num_sequences;
  args.max_rows = input.max_rows;
  args.max_kv_len = input.max_kv_len;
  args.scale = spec.scale != 0 ? static_cast<float>(spec.scale)
                               : 1.0F / std::sqrt(static_cast<float>(spec.head_dim));
  args.out = step.work.attention.slice_cols(0, spec.q_size()).split_cols(spec.heads);
  args.window = window_in(input, spec);
  args.softcap = static_cast<float>(spec.softcap);
  args.sinks = layer.weights.sinks;
  step.stream.attention(args);
}

void attention_out(LayerStep& step, const Layer& layer) {
  const LayerWeights& w = layer.weights;
  const TensorView x = step.work.attention.slice_cols(0, layer.spec.attention.q_size());
  const AdaptedNorm norm{w.attention_out_norm, layer.index, Site::attention_out_norm};
  const SumTarget sum = sum_target(step, Site::o, step.shared.attended, norm);
  run(step, {layer.index, Site::o, x, w.o, w.o_bias, sum.y, sum.accumulate, {sum.y}});
  end_block(step, sum, norm, input_of_mlp(layer));
}

}  // namespace tandem
