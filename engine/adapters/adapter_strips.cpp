#include "engine/adapters/adapter_strips.h"

#include "base/check.h"
#include "engine/loader/adapter_layout.h"

namespace tandem {
namespace {

// Appends a strip, joined to the one before it if both are contiguous on both sides, including
// padding between matrices.
void append(std::vector<AdapterStrip>& strips, const AdapterStrip& strip) {
  if (!strips.empty() && strips.back().rows == 1 && strip.rows == 1) {
    AdapterStrip& last = strips.back();
    const std::size_t gap = strip.to - (last.to + last.row_bytes);
    const bool same = strip.from >= last.from && strip.from - last.from == strip.to - last.to;
    if (same && strip.to >= last.to + last.row_bytes && gap < kAdapterAlignment) {
      last.row_bytes += gap + strip.row_bytes;
      return;
    }
  }
  strips.push_back(strip);
}

}  // namespace

Adapter device_layout(const Adapter& adapter, const ModelSpec& spec, std::int32_t num_devices) {
  const ModelSpec shape = shape_of_shard(spec, num_devices);
  Adapter part;
  part.dtype = adapter.dtype;
  part.layers = AdapterLayers(spec.num_layers(), spec.modules.size());
  for (std::size_t layer = 0; layer < adapter.layers.size(); ++layer) {
    for (std::size_t m = 0; m < spec.modules.size(); ++m) {
      const AdapterMatrix& whole = adapter.layers[layer][m];
      if (whole.rank == 0) continue;
      const AdaptedModule& row = spec.modules[m];
      const auto number = static_cast<std::int64_t>(layer);
      const std::int64_t rank =
          row.is_whole() ? row.width(shape, shape.layer(number)) : std::int64_t{whole.rank};
      append_matrix(part, shape, number, m, rank, whole.has_bias);
    }
  }
  return part;
}

std::vector<AdapterStrip> strips_of_layer(const Adapter& adapter, const Adapter& part,
                                          const ModelSpec& spec, const ModelSpec& shape,
                                          Shard shard, std::size_t layer, LayerParts parts) {
  const std::size_t element = size_of(adapter.dtype);
  const auto rank = static_cast<std::size_t>(shard.rank);
  std::vector<AdapterStrip> strips;
  const auto number = static_cast<std::int64_t>(layer);
  for (std::size_t m = 0; m < spec.modules.size(); ++m) {
    const AdapterMatrix& from = adapter.layers[layer][m];
    const AdapterMatrix& to = part.layers[layer][m];
    if (from.rank == 0) continue;
    const AdaptedModule& module = spec.modules[m];
    const auto rows = static_cast<std::size_t>(from.rank);
    const std::size_t in = static_cast<std::size_t>(module_in(shape, number, m)) * element;
    const std::size_t pitch_of_b = static_cast<std::size_t>(from.b_stride) * element;
    const auto rows_of_b = static_cast<std::size_t>(module_out(shape, number, m));
    if (module.is_whole() && to.rank != from.rank) {  // some of its columns
      if (!parts.b) continue;
      const std::size_t width = static_cast<std::size_t>(to.rank) * element;
      TANDEM_CHECK(to.rank == to.b_stride, "{} columns of a row of {}", to.rank, to.b_stride);
      append(strips, {to.b_offset, from.b_offset + rank * width, width, rows_of_b, pitch_of_b});
      continue;
    }
    if (parts.a && module.cut == ModuleCut::rows && !shard.is_whole() && in > 0) {
      const std::size_t pitch = static_cast<std::size_t>(module_in(spec, number, m)) * element;
      append(strips, {to.a_offset, from.a_offset + rank * in, in, rows, pitch});
    } else if (parts.a && in > 0) {
      append(strips, {to.a_offset, from.a_offset, in * rows});
    }
    if (!parts.b) continue;
    // The norms of heads are whole on every shard, though those of all heads together are cut.
    const bool is_cut = module_out(shape, number, m) != module_out(spec, number, m);
    const std::size_t out = rows_of_b * pitch_of_b;
    append(strips, {to.b_offset, from.b_offset + (is_cut ? rank * out : 0), out});
  }
  return strips;
}

}  // namespace tandem
