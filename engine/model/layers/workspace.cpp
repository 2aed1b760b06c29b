#include "engine/model/layers/workspace.h"

#include <algorithm>

#include "engine/model/weights/cutter.h"
#include "gpu/ops.h"

namespace tandem {
namespace {

// The columns of a rank's share of v at the projection with the most modules.
std::int64_t width_of_share(const ModelLimits& limits, std::int32_t num_shares) {
  return std::int64_t{LoraModules::kMaxModules} * lora_share(limits.max_lora_rank, num_shares);
}

bool norms_all_heads(const ModelSpec& spec) {
  return std::ranges::any_of(spec.layers, [](const LayerSpec& layer) {
    return layer.attention.qk_norm == QkNorm::all_heads;
  });
}

}  // namespace

Workspace Workspace::cut(std::int64_t rows) const {
  Workspace part = *this;
  for (TensorView* view :
       {&part.residual, &part.x, &part.qkv, &part.attention, &part.gate_up, &part.activation}) {
    *view = view->slice_rows(0, rows);
  }
  for (TensorView* view : {&part.sum, &part.apart, &part.angles, &part.squares, &part.embedded,
                           &part.layer_inputs, &part.projected, &part.input_gate, &part.lookup}) {
    if (view->rank != 0) *view = view->slice_rows(0, rows);
  }
  return part;
}

SharedSpace SharedSpace::cut(std::int64_t rows) const {
  SharedSpace part = *this;
  for (TensorView* view : {&part.embedded, &part.attended, &part.fed}) {
    *view = view->slice_rows(0, rows);
  }
  for (TensorView* view : {&part.layer_inputs, &part.squares}) {
    if (view->rank != 0) *view = view->slice_rows(0, rows);
  }
  return part;
}

Workspace lay_out_workspace(const ModelSpec& shape, Shard shard, DType dtype,
                            const ModelLimits& limits, std::byte* base, std::size_t& bytes) {
  std::int64_t q = 0;
  std::int64_t kv = 0;
  std::int64_t ffn = 0;
  for (const LayerSpec& layer : shape.layers) {
    q = std::max(q, layer.attention.q_size());
    kv = std::max(kv, layer.attention.kv_size());
    ffn = std::max(ffn, layer.mlp.size);
  }
  Cutter cutter(base);
  const std::int64_t rows = limits.max_rows;
  Workspace work;
  work.residual = cutter.take(DType::f32, rows, shape.hidden_size);
  work.x = cutter.take(dtype, std::max<std::int64_t>(rows, limits.max_samples), shape.hidden_size);
  work.qkv = cutter.take(dtype, rows, q + 2 * kv);
  work.attention = cutter.take(dtype, rows, q);
  const std::int64_t part = shape.layer_input_size();
  const std::int64_t parts = shape.num_layers() * part;
  // The memory has, in elements, what its largest user needs.
  const auto floats = static_cast<std::int64_t>(sizeof(float) / size_of(dtype));
  const std::int64_t ranks = lora_share(limits.max_lora_rank, 1);
  const bool norms_sums = std::ranges::any_of(
      shape.layers, [](const LayerSpec& layer) { return layer.norms != NormPlace::before; });
  // Shards have their sums in a part of their own.
  const std::int64_t apart = ranks > 0 && !norms_sums && shard.is_whole() ? shape.hidden_size : 0;
  work.gate_up = {cutter.take(dtype, rows * std::max({2 * ffn, floats * parts, floats * ranks,
                                                      floats * apart})),
                  dtype,
                  {rows, 2 * ffn}};
  if (ranks > 0) work.lookup = {work.gate_up.data, DType::f32, {rows, ranks}};
  if (apart > 0) work.apart = {work.gate_up.data, DType::f32, {rows, apart}};
  work.activation = cutter.take(dtype, rows, std::max(ffn, part));
  if (part > 0) {
    work.embedded = cutter.take(dtype, rows, shape.hidden_size);
    work.layer_inputs = cutter.take(DType::f32, rows, parts);
    work.projected = {work.gate_up.data, DType::f32, {rows, parts}};
    work.input_gate = {work.gate_up.data, DType::f32, {rows, part}};
  }
  if (norms_sums) work.sum = work.apart = cutter.take(DType::f32, rows, shape.hidden_size);
  for (std::size_t i = 0; i < shape.rotary.size(); ++i) {
    const RotarySpec& rotary = shape.rotary[i];
    if (rotary.original_length() == 0) continue;
    const std::int64_t pairs = rotary.pairs(shape.rotary_head_dim(i));
    work.angles = {cutter.take(DType::f32, rows * 2 * pairs), DType::f32, {rows, 2, pairs}};
  }
  work.sampled = cutter.take(DType::f32, limits.max_samples, shape.hidden_size);
  work.logits =
      cutter.take(DType::f32, limits.max_samples, shape.vocab_size + limits.max_added_tokens);
  if (!shard.is_whole()) {
    if (norms_all_heads(shape)) work.squares = cutter.take(DType::f32, rows, 2);
    work.v = cutter.take(DType::f32, limits.max_samples,
                         shard.size * width_of_share(limits, shard.size));
  }
  bytes += cutter.bytes();
  return work;
}

SharedSpace lay_out_shared(const ModelSpec& whole, Shard shard, const ModelLimits& limits,
                           std::byte* base, std::size_t& bytes) {
  Cutter cutter(base);
  SharedSpace shared;
  for (TensorView* part : {&shared.embedded, &shared.attended, &shared.fed}) {
    *part = cutter.take(DType::f32, limits.max_rows, whole.hidden_size);
  }
  if (const std::int64_t part = whole.layer_input_size(); part > 0) {
    shared.layer_inputs = cutter.take(DType::f32, limits.max_rows, whole.num_layers() * part);
  }
  if (norms_all_heads(whole)) shared.squares = cutter.take(DType::f32, limits.max_rows, 2);
  shared.logits = cutter.take(DType::f32, limits.max_samples, vocab_of_shard(whole, shard).count);
  shared.share_of_v =
      cutter.take(DType::f32, limits.max_samples, width_of_share(limits, shard.size));
  shared.part_of_v =
      cutter.take(DType::f32, limits.max_samples, lora_share(limits.max_lora_rank, 1));
  bytes += cutter.bytes();
  return shared;
}

}  // namespace tandem
