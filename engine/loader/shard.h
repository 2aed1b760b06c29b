// Which part of a model one of several devices holds (tensor parallelism; the cut is that of
// Megatron-LM, Shoeybi et al. 2019, for adapters that of S-LoRA, section 6).
//
//   q, k, v, gate, up   by columns: a rank has heads, or a range of the MLP's inner size, and of
//                       adapters all of A, however much of it a step reads, and those rows of B
//   o, down             by rows: a rank multiplies what it has computed, and the ranks' results are
//                       added up; of adapters those columns of A, and all of B
//   embedding, head     a range of the vocabulary
//   norms               all of them
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

// Whether a model of this shape can be cut for so many devices; else the message says what does not
// divide.
Status check_shards(const ModelSpec& spec, std::int32_t size);

// The shape of any rank's part: heads, KV heads and the MLP's inner size are its own; the hidden
// size and the vocabulary stay those of the model.
ModelSpec shape_of_shard(const ModelSpec& spec, std::int32_t size);

// The tokens whose rows of embedding and head a rank holds.
struct VocabRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};
VocabRange vocab_of_shard(const ModelSpec& spec, Shard shard);

}  // namespace tandem
