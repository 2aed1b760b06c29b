#include "engine/loader/adapter.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "engine/loader/adapter_layout.h"
#include "engine/loader/random_fill.h"

namespace tandem {

std::string_view to_string(Module module) {
  switch (module) {
    case Module::q:
      return "q_proj";
    case Module::k:
      return "k_proj";
    case Module::v:
      return "v_proj";
    case Module::o:
      return "o_proj";
    case Module::gate:
      return "gate_proj";
    case Module::up:
      return "up_proj";
    case Module::down:
      return "down_proj";
  }
  return "?";
}

std::int64_t module_in(const ModelSpec& config, Module module) {
  if (module == Module::o) return config.q_size();
  return module == Module::down ? config.mlp().size : config.hidden_size;
}

std::int64_t module_out(const ModelSpec& config, Module module) {
  switch (module) {
    case Module::q:
      return config.q_size();
    case Module::k:
    case Module::v:
      return config.kv_size();
    case Module::gate:
    case Module::up:
      return config.mlp().size;
    case Module::o:
    case Module::down:
      break;
  }
  return config.hidden_size;
}

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

Adapter make_dummy_adapter(const ModelSpec& config, DType dtype, std::int32_t rank,
                           const std::vector<Module>& modules, std::uint64_t seed) {
  TANDEM_CHECK(rank >= 1 && !modules.empty(), "rank {}, {} modules", rank, modules.size());
  Adapter adapter;
  adapter.path = fmt::format("dummy-{}", seed);
  adapter.dtype = dtype;
  adapter.layers.resize(static_cast<std::size_t>(config.num_layers()));
  std::vector<Module> ordered = modules;
  std::sort(ordered.begin(), ordered.end());
  ordered.erase(std::unique(ordered.begin(), ordered.end()), ordered.end());
  for (std::int64_t layer = 0; layer < config.num_layers(); ++layer) {
    for (const Module module : ordered) append_matrix(adapter, config, layer, module, rank);
  }
  const Status allocated = allocate_bytes(adapter);
  TANDEM_CHECK(allocated.ok(), "{}", allocated.message());
  std::memset(adapter.bytes.get(), 0, adapter.num_bytes);  // zeroes the padding
  for (std::size_t layer = 0; layer < adapter.layers.size(); ++layer) {
    for (const Module module : ordered) {
      const std::uint64_t key = random_key(seed, fmt::format("{}.{}", layer, to_string(module)));
      fill_dummy(adapter, adapter.layers[layer][static_cast<std::size_t>(module)],
                 module_in(config, module), module_out(config, module), key);
    }
  }
  const Status digested = set_digest(adapter);
  TANDEM_CHECK(digested.ok(), "{}", digested.message());
  return adapter;
}

}  // namespace tandem
