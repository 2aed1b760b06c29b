// The weights of a Llama-family model in device memory, or a shard of them, projections that share
// an input fused.
#pragma once

#include <functional>
#include <vector>

#include "base/status.h"
#include "engine/loader/model_config.h"
#include "engine/loader/shard.h"
#include "engine/loader/weights.h"
#include "gpu/device.h"

namespace tandem {

// All of the compute dtype, dense. Views of rank 0 are absent. Of a shard: q, kv and ffn are its
// own (shape_of_shard), and o_bias is rank 0's alone, as the ranks' results are added up.
struct LayerWeights {
  TensorView input_norm;  // [H]
  TensorView qkv;         // [q + 2 kv, H]
  TensorView qkv_bias;    // [q + 2 kv]
  TensorView q_norm;      // [d], Qwen3
  TensorView k_norm;      // [d]
  TensorView o;           // [H, q]
  TensorView o_bias;      // [H]
  TensorView post_norm;   // [H]
  TensorView gate_up;     // [2 ffn, H]
  TensorView down;        // [H, ffn]
};

// Called as weights arrive, with bytes of the device memory filled so far and in all.
using LoadProgress = std::function<void(std::size_t done, std::size_t total)>;

class ModelWeights {
 public:
  // Reads every tensor of the model, or what of it belongs to the shard, into one device
  // allocation, converted to `dtype`. A tied head is the embedding itself, held once. `config` is
  // the whole model's.
  static Result<ModelWeights> load(const ModelConfig& config, Shard shard,
                                   const WeightSource& source, DType dtype, Device& device,
                                   const LoadProgress& progress);

  // What load() will allocate for the weights.
  static std::size_t bytes_needed(const ModelConfig& config, Shard shard, DType dtype);

  const TensorView& embedding() const { return embedding_; }  // [vocab of the shard, H]
  const TensorView& head() const { return head_; }            // [vocab of the shard, H]
  const TensorView& final_norm() const { return final_norm_; }
  const LayerWeights& layer(std::int64_t index) const {
    return layers_[static_cast<std::size_t>(index)];
  }
  std::size_t bytes() const { return buffer_.bytes(); }

 private:
  Buffer buffer_;
  TensorView embedding_;
  TensorView head_;
  TensorView final_norm_;
  std::vector<LayerWeights> layers_;
};

}  // namespace tandem
