#include "engine/loader/shard.h"

#include <algorithm>

namespace tandem {
namespace {

// Elements: rows of A and of x stay aligned for vector loads.
constexpr std::int64_t kAligned = 8;

std::int64_t share_of_vocab(const ModelConfig& config, std::int32_t size) {
  return (config.vocab_size + size - 1) / size;
}

}  // namespace

Status check_shards(const ModelConfig& config, std::int32_t size) {
  if (size == 1) return {};
  const auto divides = [&](const char* what, std::int64_t count) {
    if (count % size == 0) return Status();
    return invalid("tensor_parallel: the model's {} {} cannot be shared out over {} devices", count,
                   what, size);
  };
  TANDEM_TRY(divides("attention heads", config.num_heads));
  TANDEM_TRY(divides("KV heads", config.num_kv_heads));
  TANDEM_TRY(divides("columns of the MLP", config.ffn_size));
  const ModelConfig part = shape_of_shard(config, size);
  for (const std::int64_t columns : {part.q_size(), part.ffn_size}) {
    if (columns % kAligned == 0) continue;
    return invalid(
        "tensor_parallel: over {} devices each has {} columns of a projection, which is no "
        "multiple "
        "of {}; use fewer",
        size, columns, kAligned);
  }
  if (config.vocab_size < std::int64_t{size} * size) {
    return invalid("tensor_parallel: a vocabulary of {} is too small for {} devices",
                   config.vocab_size, size);
  }
  return {};
}

ModelConfig shape_of_shard(const ModelConfig& config, std::int32_t size) {
  ModelConfig part = config;
  part.num_heads /= size;
  part.num_kv_heads /= size;
  part.ffn_size /= size;
  return part;
}

VocabRange vocab_of_shard(const ModelConfig& config, Shard shard) {
  const std::int64_t share = share_of_vocab(config, shard.size);
  const std::int64_t first = shard.rank * share;
  return {first, std::min(share, config.vocab_size - first)};
}

}  // namespace tandem
