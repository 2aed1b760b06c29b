#include "engine/model/weights/weight_layout.h"

#include <fmt/format.h>

#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "engine/loader/quantised/packed_rows.h"
#include "engine/model/weights/cutter.h"
#include "engine/model/weights/packed_columns.h"

namespace tandem {
namespace {

bool adds_one(const ModelSpec& spec) {
  return spec.norm_adds_one && !spec.stores_one_plus;
}

// Rows [first, first + rows) of a tensor of the checkpoint with `all` rows.
struct Part {
  std::string name;  // empty: rows of zeros
  std::int64_t rows;
  std::int64_t first = 0;
  std::int64_t all = 0;  // 0: the part is the whole tensor

  std::int64_t stored_rows() const { return all > 0 ? all : rows; }
};

std::int64_t rows_of(const std::vector<Part>& parts) {
  std::int64_t rows = 0;
  for (const Part& part : parts) rows += part.rows;
  return rows;
}

// Rows [first, first + count) of a weight.
Weight rows_of(const Weight& weight, std::int64_t first, std::int64_t count) {
  if (weight.is_dense()) return weight.data.slice_rows(first, count);
  Weight rows = weight;
  rows.packed = rows_from(weight.packed, weight.form, weight.packed_cols, first);
  rows.packed_rows = count;
  return rows;
}

// Rows of a projection in one shard: the shard's number of rows, and those of the checkpoint.
struct Projection {
  std::string_view name;
  std::int64_t rows;
  std::int64_t stored;
  SpreadRuns spread;  // of all shards' rows
};

// The columns of a matrix: `runs` of the checkpoint's `all`, or all of them as they are.
struct Columns {
  std::int64_t count;
  SpreadRuns runs = {};
  std::int64_t all = 0;
  bool in_order = false;  // rows are read as they are, as those of an embedding

  std::int64_t stored() const { return runs.empty() ? count : all; }
};

// Places tensors one after another. With a null base it only measures.
class Layout {
 public:
  Layout(std::byte* base, DType dtype, const WeightForms& forms)
      : cutter_(base), dtype_(dtype), forms_(forms) {}

  // A matrix made of parts of the checkpoint, stacked along the first dimension.
  WeightStack matrix(const std::vector<Part>& parts, const Columns& columns) {
    WeightStack stack;
    const std::int64_t cols = columns.count;
    for (std::size_t first = 0; first < parts.size();) {
      const std::optional<PackedForm> form = form_of(parts[first], columns);
      std::size_t end = first + 1;
      while (end < parts.size() && joins(parts[end], form, columns)) ++end;
      const std::vector<Part> like(parts.begin() + static_cast<std::ptrdiff_t>(first),
                                   parts.begin() + static_cast<std::ptrdiff_t>(end));
      const Weight whole = form ? packed(*form, rows_of(like), cols)
                                : Weight(cutter_.take(dtype_, rows_of(like), cols));
      std::int64_t row = 0;
      for (const Part& part : like) {
        pieces_.push_back({part.name,
                           {part.stored_rows(), columns.stored()},
                           part.first,
                           rows_of(whole, row, part.rows),
                           columns.runs});
        row += part.rows;
      }
      stack.parts.push_back(whole);
      first = end;
    }
    return stack;
  }
  TensorView norm(std::string name, std::int64_t size, bool adds_one) {
    const TensorView whole(cutter_.take(DType::f32, size), DType::f32, {size});
    pieces_.push_back({std::move(name), {size}, 0, Weight(whole), {}, adds_one ? 1.0F : 0.0F});
    return whole;
  }
  TensorView bias(const std::vector<Part>& parts) { return vector(parts, dtype_); }
  TensorView vector(const std::vector<Part>& parts, DType dtype) {
    const std::int64_t size = rows_of(parts);
    const TensorView whole(cutter_.take(dtype, size), dtype, {size});
    std::int64_t at = 0;
    for (const Part& part : parts) {
      pieces_.push_back(
          {part.name, {part.stored_rows()}, part.first, Weight(whole.slice_cols(at, part.rows))});
      at += part.rows;
    }
    return whole;
  }
  TensorView norm(const std::vector<Part>& parts, bool adds_one) {
    std::size_t piece = pieces_.size();
    const TensorView whole = vector(parts, DType::f32);
    for (; piece < pieces_.size(); ++piece) pieces_[piece].added = adds_one ? 1.0F : 0.0F;
    return whole;
  }

  std::size_t bytes() const { return cutter_.bytes(); }
  std::vector<WeightPiece> take_pieces() { return std::move(pieces_); }
  std::vector<SharedPiece> take_shared() { return std::move(shared_); }

 private:
  // Nothing if the part becomes dense: rows of zeros do, unless they join others.
  std::optional<PackedForm> form_of(const Part& part, const Columns& columns) const {
    if (part.name.empty() || !forms_) return std::nullopt;
    const std::array<std::int64_t, 2> shape = {part.stored_rows(), columns.stored()};
    std::optional<PackedForm> packed = forms_(part.name, shape, {part.rows, columns.count});
    if (!packed || (columns.runs.empty() && !columns.in_order)) return packed;
    const bool cuts = !columns.runs.empty();
    if (!packed->order.empty() ||
        (cuts && !can_cut(packed->form, columns.all, columns.runs, columns.count))) {
      packed.reset();
    }
    return packed;
  }
  bool joins(const Part& part, const std::optional<PackedForm>& form,
             const Columns& columns) const {
    if (part.name.empty()) return !form || has_zero_rows(form->form);
    return form_of(part, columns) == form;
  }

  Weight packed(const PackedForm& packed, std::int64_t rows, std::int64_t cols) {
    Weight weight;
    weight.form = packed.form;
    weight.packed_rows = rows;
    weight.packed_cols = cols;
    PackedPointers arrays = {};
    const PackedSizes sizes = packed_row_bytes(packed.form, cols);
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      if (sizes[i] > 0) arrays[i] = cutter_.take(static_cast<std::size_t>(rows * sizes[i]));
    }
    weight.packed = arrays_at(arrays);
    weight.table = share(packed.table);
    weight.order = share(packed.order);
    return weight;
  }
  template <typename T>
  const T* share(const std::vector<T>& values) {
    if (values.empty()) return nullptr;
    const auto bytes = std::as_bytes(std::span(values));
    std::byte* const target = cutter_.take(bytes.size());
    shared_.push_back({{bytes.begin(), bytes.end()}, target});
    return reinterpret_cast<const T*>(target);
  }

  Cutter cutter_;
  DType dtype_;
  const WeightForms& forms_;
  std::vector<WeightPiece> pieces_;
  std::vector<SharedPiece> shared_;
};

// The tensors of one layer, with the family's names.
class LayerLayout {
 public:
  LayerLayout(Layout& layout, const ModelSpec& spec, Shard shard, std::int64_t index)
      : layout_(layout),
        shard_(shard),
        prefix_(std::string(spec.names.root) + fmt::format(fmt::runtime(spec.names.layer), index)),
        norm_adds_one_(adds_one(spec)) {}

  using Projections = std::vector<Projection>;

  TensorView norm(std::string_view name, std::int64_t size) {
    return layout_.norm(weight(name), size, norm_adds_one_);
  }
  // This rank's part of a norm of all heads together.
  TensorView norm(const Projection& heads) {
    return layout_.norm(shares({heads}, ".weight"), norm_adds_one_);
  }
  // This rank's rows of each of these projections, stacked. Their numbers of rows are the rank's.
  WeightStack columns(const Projections& projections, std::int64_t in) {
    return layout_.matrix(shares(projections, ".weight"), {in});
  }
  TensorView biases(const Projections& projections) {
    return layout_.bias(shares(projections, ".bias"));
  }
  // This rank's part of a vector with an f32 for each head. Its name has no suffix.
  TensorView of_heads(const Projection& heads) {
    return layout_.vector(shares({heads}, ""), DType::f32);
  }
  // This rank's columns of a projection whose results the ranks add up. `in`: its columns, as a
  // projection has rows.
  WeightStack rows(std::string_view name, std::int64_t out, const Projection& in) {
    if (in.spread.empty() && shard_.is_whole()) return whole(name, out, in.rows);
    SpreadRuns columns = cut_spread(spread_of(in), shard_.rank * in.rows, in.rows);
    // A shard of zeros alone reads a column, which falls outside.
    if (columns.empty()) columns = {{0, 0, 0}};
    return layout_.matrix({{weight(name), out}}, {in.rows, columns, in.stored});
  }
  // All of a projection that every shard computes.
  WeightStack whole(std::string_view name, std::int64_t out, std::int64_t in) {
    return layout_.matrix({{weight(name), out}}, {in});
  }
  TensorView whole_bias(std::string_view name, std::int64_t size) {
    return layout_.bias({{prefix_ + std::string(name) + ".bias", size}});
  }

 private:
  std::string weight(std::string_view name) const {
    return fmt::format("{}{}.weight", prefix_, name);
  }
  // All shards' rows of a projection.
  SpreadRuns spread_of(const Projection& projection) const {
    if (!projection.spread.empty()) return projection.spread;
    return {{0, 0, shard_.size * projection.rows}};
  }
  // Projections of one name are stacked in one tensor.
  std::vector<Part> shares(const Projections& projections, std::string_view suffix) const {
    std::vector<Part> parts;
    for (std::size_t p = 0; p < projections.size(); ++p) {
      const Projection& projection = projections[p];
      std::int64_t before = 0;
      std::int64_t all = 0;
      for (std::size_t i = 0; i < projections.size(); ++i) {
        if (projections[i].name != projection.name) continue;
        if (i < p) before += projections[i].stored;
        all += projections[i].stored;
      }
      const std::string name = fmt::format("{}{}{}", prefix_, projection.name, suffix);
      std::int64_t row = 0;
      for (const SpreadRun& run :
           cut_spread(spread_of(projection), shard_.rank * projection.rows, projection.rows)) {
        if (run.to > row) parts.push_back({"", run.to - row});
        parts.push_back({name, run.count, before + run.from, all});
        row = run.to + run.count;
      }
      if (row < projection.rows) parts.push_back({"", projection.rows - row});
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
  const LayerSpec& whole = spec.layer(index);
  const auto queries = [&](std::string_view name) {
    return Projection{name, q, whole.attention.stored_q_size(), spread_of_queries(whole.attention)};
  };
  const auto keys = [&](std::string_view name) {
    return Projection{name, kv, whole.attention.stored_kv_size(), spread_of_keys(whole.attention)};
  };
  const auto of_mlp = [&](std::string_view name) {
    return Projection{name, shape.mlp.size, whole.mlp.stored(), spread_of_mlp(whole.mlp)};
  };
  LayerLayout layer(layout, spec, shard, index);
  LayerWeights w;
  const bool norms_inputs = shape.norms != NormPlace::behind;
  const bool norms_sums = shape.norms != NormPlace::before;
  if (norms_inputs) w.attention_norm = layer.norm(names.attention_norm, hidden);
  LayerLayout::Projections qkv = {queries(names.q), keys(names.k), keys(names.v)};
  if (attention.keys_as_values) qkv.pop_back();
  if (!attention.has_keys()) qkv.resize(1);
  w.qkv = layer.columns(qkv, hidden);
  if (attention.qkv_bias) w.qkv_bias = layer.biases(qkv);
  if (attention.qk_norm != QkNorm::none) {
    const bool by_head = attention.qk_norm == QkNorm::head;
    w.q_norm =
        by_head ? layer.norm(names.q_norm, attention.head_dim) : layer.norm(queries(names.q_norm));
    if (attention.has_keys()) {
      w.k_norm =
          by_head ? layer.norm(names.k_norm, attention.head_dim) : layer.norm(keys(names.k_norm));
    }
  }
  if (attention.sinks) {
    const std::int64_t stored = whole.attention.stored_q_size() / whole.attention.head_dim;
    w.sinks =
        layer.of_heads({names.sinks, attention.heads, stored, spread_of_heads(whole.attention)});
  }
  w.o = layer.rows(names.o, hidden, queries(names.o));
  if (attention.o_bias && shard.rank == 0) w.o_bias = layer.whole_bias(names.o, hidden);
  if (norms_sums) w.attention_out_norm = layer.norm(names.attention_out_norm, hidden);
  if (norms_inputs && !shape.parallel) w.mlp_norm = layer.norm(names.mlp_norm, hidden);
  const LayerLayout::Projections gate_up = {of_mlp(names.gate), of_mlp(names.up)};
  w.gate_up = layer.columns(gate_up, hidden);
  if (shape.mlp.bias) w.gate_up_bias = layer.biases(gate_up);
  w.down = layer.rows(names.down, hidden, of_mlp(names.down));
  if (shape.mlp.bias && shard.rank == 0) w.down_bias = layer.whole_bias(names.down, hidden);
  if (norms_sums) w.mlp_out_norm = layer.norm(names.mlp_out_norm, hidden);
  if (shape.input.size == 0) return w;
  w.input_gate = layer.whole(names.input_gate, shape.input.size, hidden);
  w.input_projection = layer.whole(names.input_projection, hidden, shape.input.size);
  w.input_out_norm = layer.norm(names.input_out_norm, hidden);
  return w;
}

}  // namespace

WeightLayout lay_out_weights(const ModelSpec& spec, Shard shard, DType dtype, std::byte* base,
                             const WeightForms& forms) {
  Layout layout(base, dtype, forms);
  const VocabRange vocab = vocab_of_shard(spec, shard);
  const auto of_vocab = [&](std::string name, const Columns& columns) {
    return layout.matrix({{std::move(name), vocab.count, vocab.first, spec.vocab_size}}, columns)
        .front();
  };
  const std::string root(spec.names.root);
  const ModelSpec shape = shape_of_shard(spec, shard.size);
  WeightLayout result;
  result.embedding = of_vocab(root + std::string(spec.names.embedding),
                              {.count = spec.hidden_size, .in_order = true});
  if (const std::int64_t size = spec.layer_input_size(); size > 0) {
    const std::int64_t parts = spec.num_layers() * size;
    result.layer_inputs.table =
        of_vocab(root + std::string(spec.names.layer_inputs), {.count = parts, .in_order = true});
    result.layer_inputs.projection = layout.matrix(
        {{root + std::string(spec.names.layer_input_projection), parts}}, {spec.hidden_size});
    result.layer_inputs.norm =
        layout.norm(root + std::string(spec.names.layer_input_norm), size, adds_one(spec));
  }
  for (std::int64_t i = 0; i < spec.num_layers(); ++i) {
    result.layers.push_back(lay_out_layer(layout, spec, shape.layer(i), shard, i));
  }
  result.final_norm =
      layout.norm(root + std::string(spec.names.final_norm), spec.hidden_size, adds_one(spec));
  // The embedding stands for a head that is not there, so that all steps have one form; no request
  // gets those logits.
  result.head = spec.has_own_head() ? of_vocab(std::string(spec.names.head), {spec.hidden_size})
                                    : result.embedding;
  result.bytes = layout.bytes();
  result.pieces = layout.take_pieces();
  result.shared = layout.take_shared();
  return result;
}

}  // namespace tandem
