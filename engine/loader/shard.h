// The part of a model that one of several devices holds (tensor parallelism as in Megatron-LM,
// Shoeybi et al. 2019; for adapters as in S-LoRA, section 6).
//
//   q, k, v, gate, up   by columns: a rank has some heads, or a range of the MLP's inner size;
//                       of adapters it has all of A, of which a step may read a part, and the
//                       matching rows of B
//   o, down             by rows: a rank multiplies its own activations, and the ranks' results are
//                       summed; of adapters it has the matching columns of A, and all of B
//   embedding, head     by ranges of the vocabulary
//   norms               not split, but for those of all heads together
//
// Modules that replace the base's are cut as the base's are, but for whole embeddings and
// heads, which every rank has.
//
// All ranks have parts of the same size, except for the vocabulary, whose last range may be
// shorter. Models whose heads or columns do not divide are spread first (model/spec/spread.h).
#pragma once

#include <cstdint>

#include "base/status.h"
#include "engine/model/spec/model_spec.h"

namespace tandem {

struct Shard {
  std::int32_t rank = 0;
  std::int32_t size = 1;
  bool is_whole() const { return size == 1; }
};

// Checks that a model of this shape can be split over `size` devices; otherwise the message names
// the dimension that is not divisible.
Status check_shards(const ModelSpec& spec, std::int32_t size);

// Returns the shape of one rank's part: heads, KV heads and the MLP's inner size are divided; the
// hidden size and the vocabulary stay those of the model.
ModelSpec shape_of_shard(const ModelSpec& spec, std::int32_t size);

// The tokens whose rows of the embedding and the head a rank holds.
struct VocabRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};
VocabRange vocab_of_shard(const ModelSpec& spec, Shard shard);

}  // namespace tandem
