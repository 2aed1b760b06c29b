#include "engine/profile/layer_load.h"

#include <array>

#include "base/dtype.h"
#include "engine/loader/shard.h"

namespace tandem {
namespace {

// Which projection of the model a module belongs to: q, k, v and gate, up are fused.
constexpr std::array<int, kNumModules> kSiteOf = {0, 0, 0, 1, 2, 2, 3};

void add_module(LayerLoad& load, std::uint32_t& sites, const ModelConfig& config, Module module,
                std::int64_t rank, std::int64_t b_stride, std::int64_t element_bytes) {
  const std::int64_t in = module_in(config, module);
  const std::int64_t out = module_out(config, module);
  load.a_bytes += rank * in * element_bytes;
  load.b_bytes += out * b_stride * element_bytes;
  load.modules += 1;
  load.ranks += static_cast<std::int32_t>(rank);
  load.out_elements += out;
  const std::uint32_t site = 1U << kSiteOf[static_cast<std::size_t>(module)];
  if ((sites & site) != 0) return;
  sites |= site;
  load.sites += 1;
  load.in_elements += in;
}

}  // namespace

LayerLoad layer_load(const ModelConfig& config, DType dtype, std::int32_t rank,
                     const std::vector<Module>& modules) {
  const auto element = static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t per_row = 16 / element;  // rows of B begin at multiples of 16 bytes
  const std::int64_t stride = (rank + per_row - 1) / per_row * per_row;
  LayerLoad load;
  std::uint32_t sites = 0;
  for (const Module module : modules) {
    add_module(load, sites, config, module, rank, stride, element);
  }
  return load;
}

std::vector<LayerLoad> layer_loads(const ModelConfig& config, const Adapter& adapter,
                                   std::int32_t num_devices) {
  const ModelConfig shape = shape_of_shard(config, num_devices);
  const auto element = static_cast<std::int64_t>(size_of(adapter.dtype));
  std::vector<LayerLoad> loads;
  loads.reserve(adapter.layers.size());
  for (const auto& layer : adapter.layers) {
    LayerLoad& load = loads.emplace_back();
    std::uint32_t sites = 0;
    for (int m = 0; m < kNumModules; ++m) {
      const AdapterMatrix& matrix = layer[static_cast<std::size_t>(m)];
      if (matrix.rank == 0) continue;
      const auto module = static_cast<Module>(m);
      add_module(load, sites, config, module, matrix.rank, matrix.b_stride, element);
      load.a_elsewhere +=
          matrix.rank * (module_in(config, module) - module_in(shape, module)) * element;
      load.b_elsewhere +=
          matrix.b_stride * (module_out(config, module) - module_out(shape, module)) * element;
    }
    load.a_bytes -= load.a_elsewhere;
    load.b_bytes -= load.b_elsewhere;
  }
  return loads;
}

}  // namespace tandem
