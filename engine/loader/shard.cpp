#include "engine/loader/shard.h"

#include <algorithm>

#include "engine/model/spec/spread.h"

namespace tandem {
namespace {

std::int64_t share_of_vocab(const ModelSpec& spec, std::int32_t size) {
  return (spec.vocab_size + size - 1) / size;
}

}  // namespace

Status check_shards(const ModelSpec& spec, std::int32_t size) {
  if (size == 1) return {};
  const auto divides = [&](const char* what, std::int64_t count) {
    if (count % size == 0) return Status();
    return invalid("tensor_parallel: the model's {} {} cannot be shared out over {} devices", count,
                   what, size);
  };
  for (const LayerSpec& layer : spec.layers) {
    TANDEM_TRY(divides("attention heads", layer.attention.heads));
    TANDEM_TRY(divides("KV heads", layer.attention.kv_heads));
    TANDEM_TRY(divides("columns of the MLP", layer.mlp.size));
    for (const std::int64_t columns : {layer.attention.q_size() / size, layer.mlp.size / size}) {
      if (columns % kShardAlignment == 0) continue;
      return invalid(
          "tensor_parallel: over {} devices each has {} columns of a projection, which is no "
          "multiple of {}; use fewer",
          size, columns, kShardAlignment);
    }
  }
  if (spec.vocab_size < std::int64_t{size} * size) {
    return invalid("tensor_parallel: a vocabulary of {} is too small for {} devices",
                   spec.vocab_size, size);
  }
  return {};
}

ModelSpec shape_of_shard(const ModelSpec& spec, std::int32_t size) {
  ModelSpec part = spec;
  for (LayerSpec& layer : part.layers) {
    layer.attention.heads /= size;
    layer.attention.kv_heads /= size;
    layer.mlp.size /= size;
  }
  return part;
}

VocabRange vocab_of_shard(const ModelSpec& spec, Shard shard) {
  const std::int64_t share = share_of_vocab(spec, shard.size);
  const std::int64_t first = shard.rank * share;
  return {first, std::min(share, spec.vocab_size - first)};
}

}  // namespace tandem
