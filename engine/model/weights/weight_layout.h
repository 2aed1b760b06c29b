// The place of each of a checkpoint's tensors in device memory, for a model or a shard of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/tensor.h"
#include "engine/loader/shard.h"
#include "engine/model/spec/model_spec.h"
#include "engine/model/spec/spread.h"
#include "gpu/weight.h"

namespace tandem {

// The weights of one layer; projections with the same input are fused. In a shard, q, kv and ffn
// are those of the shard (shape_of_shard). Norms are f32, with the 1 of 1 + weight added; biases
// have the compute dtype. Vectors that the layer does not have are of rank 0.
struct LayerWeights {
  TensorView attention_norm;  // [H]
  Weight qkv;                 // [q + 2 kv, H]; [q + kv, H] if keys are values, too; kv may be 0
  TensorView qkv_bias;        // [q + 2 kv]
  TensorView q_norm;          // [d], or [q] if the norm is over all heads
  TensorView k_norm;          // [d], or [kv]
  TensorView sinks;           // [heads] f32
  Weight o;                   // [H, q]
  TensorView o_bias;          // [H]; in shards only on rank 0, as the ranks' results are added up
  TensorView attention_out_norm;  // [H]
  TensorView mlp_norm;            // [H]
  Weight gate_up;                 // [2 ffn, H]
  TensorView gate_up_bias;        // [2 ffn]
  Weight down;                    // [H, ffn]
  TensorView down_bias;           // [H]; in shards only on rank 0
  TensorView mlp_out_norm;        // [H]
  // Of a layer with a part of inputs by layer, P wide. Every shard has all of them.
  Weight input_gate;          // [P, H]
  Weight input_projection;    // [H, P]
  TensorView input_out_norm;  // [H]
  float output_scale = 1;     // read by ModelWeights::load
};

// A tensor of the checkpoint, or a block of it, and its place in device memory.
struct WeightPiece {
  std::string name;                 // empty: the target is zero
  std::vector<std::int64_t> shape;  // of the whole tensor
  std::int64_t first_row = 0;
  TensorView target;        // dense
  SpreadRuns columns = {};  // of the rows; empty: all of them, as they are
  float added = 0;          // to each element, after it was converted to target's dtype

  std::int64_t all_cols() const { return shape.size() == 2 ? shape[1] : 1; }
  std::int64_t cols() const { return target.rank == 2 ? target.cols() : 1; }
  bool has_whole_rows() const { return columns.empty(); }
};

// The weights that make the inputs by layer of all L layers, P wide each.
struct LayerInputWeights {
  TensorView table;   // [vocab of the shard, L P]
  Weight projection;  // [L P, H]
  TensorView norm;    // [P]
};

struct WeightLayout {
  TensorView embedding;   // [vocab of the shard, H]
  Weight head;            // the same shape; the embedding itself if they are tied
  TensorView final_norm;  // [H]
  LayerInputWeights layer_inputs;
  std::vector<LayerWeights> layers;
  std::vector<WeightPiece> pieces;  // in the order of their places
  std::size_t bytes = 0;
};

// Places all tensors one after another from `base` on; with a null base it only measures. `spec`:
// that of the whole model.
WeightLayout lay_out_weights(const ModelSpec& spec, Shard shard, DType dtype, std::byte* base);

}  // namespace tandem
