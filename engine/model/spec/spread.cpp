#include "engine/model/spec/spread.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tandem {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}
std::int64_t round_up(std::int64_t a, std::int64_t to) {
  return ceil_div(a, to) * to;
}

void append(SpreadRuns& spread, const SpreadRun& run) {
  if (run.count <= 0) return;
  if (!spread.empty()) {
    SpreadRun& last = spread.back();
    if (last.from + last.count == run.from && last.to + last.count == run.to) {
      last.count += run.count;
      return;
    }
  }
  spread.push_back(run);
}

SpreadRuns times(SpreadRuns spread, std::int64_t factor) {
  for (SpreadRun& run : spread) {
    run = {run.from * factor, run.to * factor, run.count * factor};
  }
  return spread;
}

void spread_attention(AttentionSpec& attention, std::int64_t devices) {
  const std::int64_t kv_heads = attention.kv_heads;
  const std::int64_t group = attention.heads / kv_heads;
  const std::int64_t copies = std::max<std::int64_t>(1, devices / kv_heads);
  const std::int64_t slots = round_up(kv_heads * copies, devices);
  std::int64_t group_of_slot = ceil_div(group, copies);
  while (slots / devices * group_of_slot * attention.head_dim % kShardAlignment != 0) {
    ++group_of_slot;
  }
  if (slots == kv_heads && group_of_slot == group) return;
  attention.stored_heads = attention.heads;
  attention.stored_kv_heads = kv_heads;
  attention.kv_heads = slots;
  attention.heads = slots * group_of_slot;
}

}  // namespace

ModelSpec spread_over(const ModelSpec& spec, std::int32_t num_devices) {
  ModelSpec spread = spec;
  if (num_devices == 1) return spread;
  for (LayerSpec& layer : spread.layers) {
    spread_attention(layer.attention, num_devices);
    const std::int64_t size = round_up(layer.mlp.size, kShardAlignment * num_devices);
    if (size == layer.mlp.size) continue;
    layer.mlp.stored_size = std::exchange(layer.mlp.size, size);
  }
  return spread;
}

SpreadRuns spread_of_heads(const AttentionSpec& attention) {
  SpreadRuns spread;
  if (attention.stored_heads == 0) return spread;
  const std::int64_t group = attention.stored_heads / attention.stored_kv_heads;
  const std::int64_t group_of_slot = attention.heads / attention.kv_heads;
  const std::int64_t copies = attention.kv_heads / attention.stored_kv_heads;
  for (std::int64_t slot = 0; slot < attention.stored_kv_heads * copies; ++slot) {
    const std::int64_t first = slot % copies * group_of_slot;
    append(spread, {slot / copies * group + first, slot * group_of_slot,
                    std::min(group_of_slot, group - first)});
  }
  return spread;
}

SpreadRuns spread_of_kv_heads(const AttentionSpec& attention) {
  SpreadRuns spread;
  if (attention.stored_kv_heads == 0 || !attention.has_keys()) return spread;
  const std::int64_t copies = attention.kv_heads / attention.stored_kv_heads;
  for (std::int64_t slot = 0; slot < attention.stored_kv_heads * copies; ++slot) {
    append(spread, {slot / copies, slot, 1});
  }
  return spread;
}

SpreadRuns spread_of_queries(const AttentionSpec& attention) {
  return times(spread_of_heads(attention), attention.head_dim);
}

SpreadRuns spread_of_keys(const AttentionSpec& attention) {
  return times(spread_of_kv_heads(attention), attention.head_dim);
}

std::int64_t queries_of_all(const AttentionSpec& part, std::int64_t num_devices) {
  return part.stored_heads == 0 ? num_devices * part.q_size() : part.stored_q_size();
}

std::int64_t keys_of_all(const AttentionSpec& part, std::int64_t num_devices) {
  if (part.stored_kv_heads == 0) return num_devices * part.kv_size();
  return num_devices * part.kv_heads / part.stored_kv_heads * part.stored_kv_size();
}

SpreadRuns spread_of_mlp(const MlpSpec& mlp) {
  if (mlp.stored_size == 0) return {};
  return {{0, 0, mlp.stored_size}};
}

SpreadRuns cut_spread(const SpreadRuns& spread, std::int64_t first, std::int64_t count) {
  SpreadRuns cut;
  for (const SpreadRun& run : spread) {
    const std::int64_t begin = std::max(run.to, first);
    const std::int64_t end = std::min(run.to + run.count, first + count);
    append(cut, {run.from + begin - run.to, begin - first, end - begin});
  }
  return cut;
}

void copy_spread(const SpreadRuns& spread, std::size_t element_bytes, const std::byte* from,
                 std::byte* to) {
  for (const SpreadRun& run : spread) {
    std::memcpy(to + static_cast<std::size_t>(run.to) * element_bytes,
                from + static_cast<std::size_t>(run.from) * element_bytes,
                static_cast<std::size_t>(run.count) * element_bytes);
  }
}

ModuleSide input_of_module(const ModelSpec& spec, std::int64_t layer, std::size_t module) {
  const AttentionSpec& attention = spec.layer(layer).attention;
  const MlpSpec& mlp = spec.layer(layer).mlp;
  const AdaptedModule& row = spec.modules[module];
  if ((row.site == Site::o || row.site == Site::whole_o) && attention.stored_heads != 0) {
    return {attention.stored_q_size(), spread_of_queries(attention)};
  }
  if ((row.site == Site::down || row.site == Site::whole_down) && mlp.stored_size != 0) {
    return {mlp.stored(), spread_of_mlp(mlp)};
  }
  return {row.is_whole() ? row.width(spec, spec.layer(layer)) : module_in(spec, layer, module), {}};
}

ModuleSide output_of_module(const ModelSpec& spec, std::int64_t layer, std::size_t module) {
  const AttentionSpec& attention = spec.layer(layer).attention;
  const MlpSpec& mlp = spec.layer(layer).mlp;
  const Site site = spec.modules[module].site;
  const auto is_of = [&](Site product) {
    return site == product || site == whole_of(product) || site == bias_of(product);
  };
  const bool norms_all = site == Site::qk_norm && attention.qk_norm == QkNorm::all_heads;
  if (module_out(spec, layer, module) == 0) return {};
  if ((is_of(Site::qkv) || norms_all) && attention.stored_heads != 0) {
    if (module == spec.modules.first_of(site)) {
      return {attention.stored_q_size(), spread_of_queries(attention)};
    }
    return {attention.stored_kv_size(), spread_of_keys(attention)};
  }
  if (is_of(Site::gate_up) && mlp.stored_size != 0) return {mlp.stored(), spread_of_mlp(mlp)};
  return {module_out(spec, layer, module), {}};
}

}  // namespace tandem
