// Device memory that a step computes in: fixed when the model is made, cut to a step's rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/tensor.h"
#include "engine/loader/shard.h"
#include "engine/model/spec/model_spec.h"

namespace tandem {

// What the work space has room for.
struct ModelLimits {
  std::int32_t max_rows = 0;       // tokens in a step
  std::int32_t max_samples = 0;    // rows that get logits
  std::int64_t max_positions = 0;  // context length
  std::int32_t max_lora_rank = 0;  // 0: no adapters
};

// Views for the most rows that a step may have, or for those of a step. T rows, S samples, H hidden
// size; q, kv and ffn are the largest of any layer, and of a shard its own.
struct Workspace {
  TensorView residual;    // [T, H] f32: the stream that every layer adds to
  TensorView x;           // [T, H] normed input of a projection
  TensorView qkv;         // [T, q + 2 kv]
  TensorView attention;   // [T, q]
  TensorView gate_up;     // [T, 2 ffn]
  TensorView activation;  // [T, ffn]
  TensorView sampled;     // [S, H] f32: residual of the rows that get logits
  TensorView logits;      // [S, vocab] f32
  // Only of a shard: [S, ..] f32, adapters' v as all ranks have computed it. A step's views of it,
  // and of `share_of_v` and `part_of_v`, are as wide as it needs.
  TensorView v;

  // `rows` of what has a row for each of the step's.
  Workspace cut(std::int64_t rows) const;
};

// What a shard shows the others, one after another within a step: none is written to while somebody
// may still look at it (AllReduceArgs).
struct SharedSpace {
  TensorView embedded;  // [T, H] f32
  TensorView attended;  // [T, H] f32: this rank's part of what o adds to the residual
  TensorView fed;       // [T, H] f32: of what down adds to it
  TensorView logits;    // [S, vocab of the shard] f32
  // Of adapters that are halved (LoraHalves): this rank's share of v, [S, ..] f32, of the
  // projections before a sum, and its part of v of those that make the sum.
  TensorView share_of_v;
  TensorView part_of_v;

  SharedSpace cut(std::int64_t rows) const;
};

// Lay out the views one after another from `base` on, and add to `bytes` what they take. With a
// null base they only measure. `shape`: the shard's (shape_of_shard); `whole`: the model's.
Workspace lay_out_workspace(const ModelSpec& shape, Shard shard, DType dtype,
                            const ModelLimits& limits, std::byte* base, std::size_t& bytes);
SharedSpace lay_out_shared(const ModelSpec& whole, Shard shard, const ModelLimits& limits,
                           std::byte* base, std::size_t& bytes);

}  // namespace tandem
