// Device memory for the intermediate results of a step: allocated with the model, and cut to the
// rows of each step.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/tensor.h"
#include "engine/loader/shard.h"
#include "engine/model/spec/model_spec.h"

namespace tandem {

// The largest step that the work space has room for.
struct ModelLimits {
  std::int32_t max_rows = 0;       // tokens in a step
  std::int32_t max_samples = 0;    // rows with logits
  std::int64_t max_positions = 0;  // context length
  std::int32_t max_lora_rank = 0;  // 0: no adapters
  // Tokens that adapters may have beyond the base's vocabulary.
  std::int32_t max_added_tokens = 0;
};

// Views for the largest step, or cut to one step. T rows, S samples, H hidden size; q, kv and ffn
// are the largest of all layers, in a shard those of the shard. Without inputs by layer, P wide
// each of the L layers, the views of them have rank 0.
struct Workspace {
  TensorView residual;    // [T, H] f32: the stream that every layer adds to
  TensorView x;           // [T, H] normed input of a projection
  TensorView qkv;         // [T, q + 2 kv]
  TensorView attention;   // [T, q]
  TensorView gate_up;     // [T, 2 ffn]
  TensorView activation;  // [T, ffn], or [T, P] if that is wider
  TensorView sum;         // [T, H] f32: a block's sum before its norm; rank 0: no layer norms one
  // [T, H] f32: a block's sum without a norm, of a step where adapters replace rows of it; rank 0
  // without adapters. It shares the memory of `sum`, or of `gate_up`, which has not begun or has
  // ended.
  TensorView apart;
  TensorView embedded;      // [T, H] the embedding, from which inputs by layer are made
  TensorView layer_inputs;  // [T, L P] f32
  // [T, ranks] f32: v of the embedding's LoRA; rank 0 without adapters. It shares the memory of
  // `gate_up`, which has not begun.
  TensorView lookup;
  // Both share the memory of `gate_up`, whose feed-forward part has ended.
  TensorView projected;   // [T, L P] f32
  TensorView input_gate;  // [T, P] f32
  TensorView angles;      // [T, 2, pairs] f32: of rotary embeddings that depend on lengths; rank 0
  // In shards with norms over all heads only: [T, 2] f32, the sums of squares of q and of k.
  TensorView squares;
  TensorView sampled;  // [S, H] f32: residual of the rows with logits
  // [S, vocab] f32; in steps with adapters that have rows by token, max_added_tokens more columns.
  TensorView logits;
  // In shards only: [S, ..] f32, the adapters' v from all ranks. A step's views of it, and of
  // `share_of_v` and `part_of_v`, are as wide as the step needs.
  TensorView v;

  // The same, with `rows` rows in all views that have one for each row of the step.
  Workspace cut(std::int64_t rows) const;
};

// Memory that other ranks read. Between two uses of a view, the ranks meet for another one, so that
// none is overwritten while another rank may still read it (AllReduceArgs).
struct SharedSpace {
  TensorView embedded;      // [T, H] f32
  TensorView attended;      // [T, H] f32: this rank's part of the sum of o
  TensorView fed;           // [T, H] f32: this rank's part of the sum of down
  TensorView layer_inputs;  // [T, L P] f32: this rank's rows of the table; rank 0: no such inputs
  TensorView squares;       // [T, 2] f32: those of this rank's q and k; rank 0: not needed
  TensorView logits;        // [S, vocab of the shard] f32
  // For halved adapters (LoraHalves), [S, ..] f32: this rank's share of v at the projections that
  // need no sum over ranks, and its part of v at those that do.
  TensorView share_of_v;
  TensorView part_of_v;

  SharedSpace cut(std::int64_t rows) const;
};

// Place the views one after another from `base` on, and add their size to `bytes`. With a null base
// they only measure. `shape`: the shard's (shape_of_shard); `whole`: the model's.
Workspace lay_out_workspace(const ModelSpec& shape, Shard shard, DType dtype,
                            const ModelLimits& limits, std::byte* base, std::size_t& bytes);
SharedSpace lay_out_shared(const ModelSpec& whole, Shard shard, const ModelLimits& limits,
                           std::byte* base, std::size_t& bytes);

}  // namespace tandem
