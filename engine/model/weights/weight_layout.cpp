#include "engine/model/weights/weight_layout.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "engine/model/weights/cutter.h"

namespace tandem {
namespace {

// Rows [first, first + rows) of a tensor of the checkpoint with `all` rows.
struct Part {
  std::string name;
  std::int64_t rows;
  std::int64_t first = 0;
  std::int64_t all = 0;  // 0: the part is the whole tensor
};

// Places tensors one after another. With a null base it only measures.
class Layout {
 public:
  Layout(std::byte* base, DType dtype) : cutter_(base), dtype_(dtype) {}

  // A matrix made of parts of the checkpoint, stacked along the first dimension: columns
  // [first_col, first_col + cols) of `all_cols`.
  TensorView matrix(const std::vector<Part>& parts, std::int64_t cols, std::int64_t first_col = 0,
                    std::int64_t all_cols = 0) {
    std::int64_t rows = 0;
    for (const Part& part : parts) rows += part.rows;
    const TensorView whole = cutter_.take(dtype_, rows, cols);
    std::int64_t row = 0;
    for (const Part& part : parts) {
      pieces_.push_back({part.name,
                         {part.all > 0 ? part.all : part.rows, all_cols > 0 ? all_cols : cols},
                         part.first,
                         first_col,
                         whole.slice_rows(row, part.rows)});
      row += part.rows;
    }
    return whole;
  }
  TensorView norm(std::string name, std::int64_t size, bool adds_one) {
    const TensorView whole(cutter_.take(DType::f32, size), DType::f32, {size});
    pieces_.push_back({std::move(name), {size}, 0, 0, whole, adds_one ? 1.0F : 0.0F});
    return whole;
  }
  TensorView bias(const std::vector<Part>& parts) {
    std::int64_t size = 0;
    for (const Part& part : parts) size += part.rows;
    const TensorView whole(cutter_.take(dtype_, size), dtype_, {size});
    std::int64_t at = 0;
    for (const Part& part : parts) {
      pieces_.push_back({part.name,
                         {part.all > 0 ? part.all : part.rows},
                         part.first,
                         0,
                         whole.slice_cols(at, part.rows)});
      at += part.rows;
    }
    return whole;
  }

  std::size_t bytes() const { return cutter_.bytes(); }
  std::vector<WeightPiece> take_pieces() { return std::move(pieces_); }

 private:
  Cutter cutter_;
  DType dtype_;
  std::vector<WeightPiece> pieces_;
};

// The tensors of one layer, with the family's names.
class LayerLayout {
 public:
  LayerLayout(Layout& layout, const ModelSpec& spec, Shard shard, std::int64_t index)
      : layout_(layout),
        shard_(shard),
        prefix_(std::string(spec.names.root) + fmt::format(fmt::runtime(spec.names.layer), index)),
        norm_adds_one_(spec.norm_adds_one) {}

  using Projections = std::vector<std::pair<std::string_view, std::int64_t>>;

  TensorView norm(std::string_view name, std::int64_t size) {
    return layout_.norm(weight(name), size, norm_adds_one_);
  }
  // This rank's rows of each of these projections, stacked. Their numbers of rows are the rank's.
  TensorView columns(const Projections& projections, std::int64_t in) {
    return layout_.matrix(shares(projections, ".weight"), in);
  }
  TensorView biases(const Projections& projections) {
    return layout_.bias(shares(projections, ".bias"));
  }
  // This rank's part of a vector with an f32 for each head, all of which is loaded. Its name has no
  // suffix.
  TensorView of_heads(std::string_view name, std::int64_t heads) {
    const TensorView all =
        layout_.norm(prefix_ + std::string(name), shard_.size * heads, /*adds_one=*/false);
    return all.slice_cols(shard_.rank * heads, heads);
  }
  // This rank's columns of a projection whose results the ranks add up. `in`: the rank's.
  TensorView rows(std::string_view name, std::int64_t out, std::int64_t in) {
    return layout_.matrix({{weight(name), out}}, in, shard_.rank * in, shard_.size * in);
  }
  // All of a projection that every shard computes.
  TensorView whole(std::string_view name, std::int64_t out, std::int64_t in) {
    return layout_.matrix({{weight(name), out}}, in);
  }
  TensorView whole_bias(std::string_view name, std::int64_t size) {
    return layout_.bias({{prefix_ + std::string(name) + ".bias", size}});
  }

 private:
  std::string weight(std::string_view name) const {
    return fmt::format("{}{}.weight", prefix_, name);
  }
  // Projections of one name are stacked in one tensor.
  std::vector<Part> shares(const Projections& projections, std::string_view suffix) const {
    std::vector<Part> parts;
    for (const auto& [name, rows] : projections) {
      std::int64_t before = 0;
      std::int64_t all = 0;
      for (std::size_t i = 0; i < projections.size(); ++i) {
        if (projections[i].first != name) continue;
        if (i < parts.size()) before += shard_.size * projections[i].second;
        all += shard_.size * projections[i].second;
      }
      parts.push_back(
          {fmt::format("{}{}{}", prefix_, name, suffix), rows, before + shard_.rank * rows, all});
    }
    return parts;
  }

  Layout& layout_;
  Shard shard_;
  std::string prefix_;
  bool norm_adds_one_;
};

LayerWeights lay_out_layer(Layout& layout, const ModelSpec& spec, const LayerSpec& shape,
                           Shard shard, std::int64_t index) {
  const TensorNames& names = spec.names;
  const AttentionSpec& attention = shape.attention;
  const std::int64_t hidden = spec.hidden_size;
  const std::int64_t q = attention.q_size();
  const std::int64_t kv = attention.kv_size();
  LayerLayout layer(layout, spec, shard, index);
  LayerWeights w;
  const bool norms_inputs = shape.norms != NormPlace::behind;
  const bool norms_sums = shape.norms != NormPlace::before;
  if (norms_inputs) w.attention_norm = layer.norm(names.attention_norm, hidden);
  LayerLayout::Projections qkv = {{names.q, q}, {names.k, kv}, {names.v, kv}};
  if (attention.keys_as_values) qkv.pop_back();
  if (!attention.has_keys()) qkv.resize(1);
  w.qkv = layer.columns(qkv, hidden);
  if (attention.qkv_bias) w.qkv_bias = layer.biases(qkv);
  if (attention.qk_norm != QkNorm::none) {
    const bool by_head = attention.qk_norm == QkNorm::head;
    w.q_norm = layer.norm(names.q_norm, by_head ? attention.head_dim : q);
    if (attention.has_keys()) {
      w.k_norm = layer.norm(names.k_norm, by_head ? attention.head_dim : kv);
    }
  }
  if (attention.sinks) w.sinks = layer.of_heads(names.sinks, attention.heads);
  w.o = layer.rows(names.o, hidden, q);
  if (attention.o_bias && shard.rank == 0) w.o_bias = layer.whole_bias(names.o, hidden);
  if (norms_sums) w.attention_out_norm = layer.norm(names.attention_out_norm, hidden);
  if (norms_inputs && !shape.parallel) w.mlp_norm = layer.norm(names.mlp_norm, hidden);
  const LayerLayout::Projections gate_up = {{names.gate, shape.mlp.size},
                                            {names.up, shape.mlp.size}};
  w.gate_up = layer.columns(gate_up, hidden);
  if (shape.mlp.bias) w.gate_up_bias = layer.biases(gate_up);
  w.down = layer.rows(names.down, hidden, shape.mlp.size);
  if (shape.mlp.bias && shard.rank == 0) w.down_bias = layer.whole_bias(names.down, hidden);
  if (norms_sums) w.mlp_out_norm = layer.norm(names.mlp_out_norm, hidden);
  if (shape.input.size == 0) return w;
  w.input_gate = layer.whole(names.input_gate, shape.input.size, hidden);
  w.input_projection = layer.whole(names.input_projection, hidden, shape.input.size);
  w.input_out_norm = layer.norm(names.input_out_norm, hidden);
  return w;
}

}  // namespace

WeightLayout lay_out_weights(const ModelSpec& spec, Shard shard, DType dtype, std::byte* base) {
  Layout layout(base, dtype);
  const VocabRange vocab = vocab_of_shard(spec, shard);
  const auto of_vocab = [&](std::string name, std::int64_t cols) {
    return layout.matrix({{std::move(name), vocab.count, vocab.first, spec.vocab_size}}, cols);
  };
  const std::string root(spec.names.root);
  const ModelSpec shape = shape_of_shard(spec, shard.size);
  WeightLayout result;
  result.embedding = of_vocab(root + std::string(spec.names.embedding), spec.hidden_size);
  if (const std::int64_t size = spec.layer_input_size(); size > 0) {
    const std::int64_t parts = spec.num_layers() * size;
    result.layer_inputs.table = of_vocab(root + std::string(spec.names.layer_inputs), parts);
    result.layer_inputs.projection = layout.matrix(
        {{root + std::string(spec.names.layer_input_projection), parts}}, spec.hidden_size);
    result.layer_inputs.norm =
        layout.norm(root + std::string(spec.names.layer_input_norm), size, spec.norm_adds_one);
  }
  for (std::int64_t i = 0; i < spec.num_layers(); ++i) {
    result.layers.push_back(lay_out_layer(layout, spec, shape.layer(i), shard, i));
  }
  result.final_norm =
      layout.norm(root + std::string(spec.names.final_norm), spec.hidden_size, spec.norm_adds_one);
  result.head = spec.tie_word_embeddings ? result.embedding
                                         : of_vocab(std::string(spec.names.head), spec.hidden_size);
  result.bytes = layout.bytes();
  result.pieces = layout.take_pieces();
  return result;
}

}  // namespace tandem
