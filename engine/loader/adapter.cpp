#include "engine/loader/adapter.h"

#include <cmath>
#include <cstring>
#include <set>

#include "base/check.h"
#include "engine/loader/adapter_layout.h"
#include "engine/loader/random_fill.h"

namespace tandem {

namespace {

// A uniform variable on [-h, h] has the variance h^2 / 3.
float half_width(double deviation) {
  return static_cast<float>(deviation * std::sqrt(3.0));
}

void fill_dummy(Adapter& adapter, const AdapterMatrix& matrix, std::int64_t in, std::int64_t out,
                std::uint64_t key) {
  const auto rank = static_cast<std::size_t>(matrix.rank);
  const auto stride = static_cast<std::size_t>(matrix.b_stride);
  const std::size_t element = size_of(adapter.dtype);
  std::byte* const a = adapter.bytes.get() + matrix.a_offset;
  std::byte* const b = adapter.bytes.get() + matrix.b_offset;
  random_fill(key, 0, rank * static_cast<std::size_t>(in), 0,
              half_width(1 / std::sqrt(static_cast<double>(in))), adapter.dtype, a);
  // If x and A x have unit size, delta is a tenth of that: enough to change the text, too little to
  // destroy it.
  const float b_width = half_width(0.1 / std::sqrt(static_cast<double>(rank)));
  for (std::size_t row = 0; row < static_cast<std::size_t>(out); ++row) {
    std::byte* const to = b + row * stride * element;
    random_fill(random_key(key, "B"), row * ((rank + 3) / 4 * 4), rank, 0, b_width, adapter.dtype,
                to);
  }
}

}  // namespace

Adapter make_dummy_adapter(const ModelSpec& spec, DType dtype, std::int32_t rank,
                           const std::vector<std::string_view>& modules, std::uint64_t seed,
                           std::span<const Site> whole) {
  TANDEM_CHECK(rank >= 1 && modules.size() + whole.size() > 0, "rank {}, {} modules", rank,
               modules.size());
  Adapter adapter;
  adapter.path = fmt::format("dummy-{}", seed);
  adapter.dtype = dtype;
  adapter.layers = AdapterLayers(spec.num_layers(), spec.modules.size());
  std::set<std::size_t> rows;
  for (const std::string_view name : modules) rows.insert(spec.modules.row(name));
  for (const Site site : whole) rows.insert(spec.modules.first_of(site));
  for (std::int64_t layer = 0; layer < spec.num_layers(); ++layer) {
    for (const std::size_t module : rows) {
      if (module_out(spec, layer, module) == 0) continue;
      append_matrix(adapter, spec, layer, module, module_rank(spec, layer, module, rank));
    }
  }
  const Status allocated = allocate_bytes(adapter);
  TANDEM_CHECK(allocated.ok(), "{}", allocated.message());
  std::memset(adapter.bytes.get(), 0, adapter.num_bytes);  // zeroes the padding
  for (std::int64_t layer = 0; layer < spec.num_layers(); ++layer) {
    for (const std::size_t module : rows) {
      const AdapterMatrix& matrix = adapter.layers[static_cast<std::size_t>(layer)][module];
      if (matrix.rank == 0) continue;
      const std::uint64_t key =
          random_key(seed, fmt::format("{}.{}", layer, spec.modules[module].name()));
      fill_dummy(adapter, matrix, module_in(spec, layer, module), module_out(spec, layer, module),
                 key);
    }
  }
  const Status digested = set_digest(adapter);
  TANDEM_CHECK(digested.ok(), "{}", digested.message());
  return adapter;
}

}  // namespace tandem
