// The place of each of a checkpoint's tensors in device memory, for a model or a shard of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/tensor.h"
#include "engine/loader/quantised/packed_form.h"
#include "engine/loader/shard.h"
#include "engine/model/spec/model_spec.h"
#include "engine/model/spec/spread.h"
#include "engine/model/weights/weight_stack.h"
#include "gpu/weight.h"

namespace tandem {

// The weights of one layer; projections with the same input are fused. In a shard, q, kv and ffn
// are those of the shard (shape_of_shard). Norms are f32, with the 1 of 1 + weight added; biases
// have the compute dtype. Vectors that the layer does not have are of rank 0.
struct LayerWeights {
  TensorView attention_norm;  // [H]
  WeightStack qkv;            // [q + 2 kv, H]; [q + kv, H] if keys are values, too; kv may be 0
  TensorView qkv_bias;        // [q + 2 kv]
  TensorView q_norm;          // [d], or [q] if the norm is over all heads
  TensorView k_norm;          // [d], or [kv]
  TensorView sinks;           // [heads] f32
  WeightStack o;              // [H, q]
  TensorView o_bias;          // [H]; in shards only on rank 0, as the ranks' results are added up
  TensorView attention_out_norm;  // [H]
  TensorView mlp_norm;            // [H]
  WeightStack gate_up;            // [2 ffn, H]
  TensorView gate_up_bias;        // [2 ffn]
  WeightStack down;               // [H, ffn]
  TensorView down_bias;           // [H]; in shards only on rank 0
  TensorView mlp_out_norm;        // [H]
  // A layer with a part of inputs by layer, P wide, has these. Every shard has all of them.
  WeightStack input_gate;        // [P, H]
  WeightStack input_projection;  // [H, P]
  TensorView input_out_norm;     // [H]
  float output_scale = 1;        // read by ModelWeights::load
};

// A tensor of the checkpoint, or a block of it, and its place in device memory.
struct WeightPiece {
  std::string name;                 // empty: the target is zero
  std::vector<std::int64_t> shape;  // of the whole tensor
  std::int64_t first_row = 0;
  Weight target;            // a dense one may be a vector
  SpreadRuns columns = {};  // of the rows; empty: all of them, as they are
  float added = 0;          // to each element, after it was converted to target's dtype

  std::int64_t all_cols() const { return shape.size() == 2 ? shape[1] : 1; }
  std::int64_t cols() const { return shape.size() == 2 ? target.cols() : 1; }
  std::int64_t rows() const { return target.rows(); }
  bool has_whole_rows() const { return columns.empty(); }
};

// Bytes that all rows of a packed matrix share, and their place in device memory.
struct SharedPiece {
  std::vector<std::byte> bytes;
  std::byte* target;
};

// The form in which a tensor of the checkpoint stays packed; nothing: it is converted to a dense
// one. `shape`: in the checkpoint; `own`: the rows and columns of the shard.
using WeightForms = std::function<std::optional<PackedForm>(
    std::string_view name, std::span<const std::int64_t> shape, std::array<std::int64_t, 2> own)>;

// The weights that make the inputs by layer of all L layers, P wide each.
struct LayerInputWeights {
  Weight table;            // [vocab of the shard, L P]
  WeightStack projection;  // [L P, H]
  TensorView norm;         // [P]
};

struct WeightLayout {
  Weight embedding;       // [vocab of the shard, H]
  Weight head;            // the same shape; the embedding itself without an own one
  TensorView final_norm;  // [H]
  LayerInputWeights layer_inputs;
  std::vector<LayerWeights> layers;
  std::vector<WeightPiece> pieces;  // in the order of their places
  std::vector<SharedPiece> shared;
  std::size_t bytes = 0;
};

// Places all tensors one after another from `base` on; with a null base it only measures. `spec`:
// that of the whole model. A packed tensor whose groups would be cut is converted. Without `forms`,
// all are dense.
WeightLayout lay_out_weights(const ModelSpec& spec, Shard shard, DType dtype, std::byte* base,
                             const WeightForms& forms = {});

}  // namespace tandem
