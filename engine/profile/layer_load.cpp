#include "engine/profile/layer_load.h"

#include <array>
#include <utility>

#include "base/dtype.h"

namespace tandem {
namespace {

// The index of the site that each module belongs to: q, k, v and gate, up are fused.
constexpr std::array<int, kNumModules> kSiteOf = {0, 0, 0, 1, 2, 2, 3};

// Accumulates the modules of one layer.
class LayerSum {
 public:
  LayerSum(const ModelSpec& config, std::int32_t num_devices, DType dtype)
      : config_(config),
        num_devices_(num_devices),
        element_bytes_(static_cast<std::int64_t>(size_of(dtype))) {}

  void add(Module module, std::int64_t rank, std::int64_t b_stride) {
    const std::int64_t in = module_in(config_, module);
    const std::int64_t out = module_out(config_, module);
    const bool by_rows = module == Module::o || module == Module::down;  // loader/shard.h
    const std::int64_t in_here = by_rows ? in / num_devices_ : in;
    const std::int64_t out_here = by_rows ? out : out / num_devices_;
    load_.a_bytes += rank * in_here * element_bytes_;
    load_.b_bytes += out_here * b_stride * element_bytes_;
    load_.a_elsewhere += rank * (in - in_here) * element_bytes_;
    load_.b_elsewhere += (out - out_here) * b_stride * element_bytes_;
    load_.modules += 1;
    load_.ranks += static_cast<std::int32_t>(rank);
    load_.out_elements += out;
    const std::uint32_t site = 1U << kSiteOf[static_cast<std::size_t>(module)];
    if ((sites_ & site) != 0) return;
    sites_ |= site;
    load_.sites += 1;
    load_.in_elements += in;
  }
  // Returns the sum and resets it.
  LayerLoad take() {
    sites_ = 0;
    return std::exchange(load_, {});
  }

 private:
  const ModelSpec& config_;
  const std::int32_t num_devices_;
  const std::int64_t element_bytes_;
  LayerLoad load_;
  std::uint32_t sites_ = 0;
};

}  // namespace

LayerLoad layer_load(const ModelSpec& config, DType dtype, std::int32_t rank,
                     const std::vector<Module>& modules, std::int32_t num_devices) {
  const auto per_row = static_cast<std::int64_t>(16 / size_of(dtype));
  // Rows of B are padded to multiples of 16 bytes.
  const std::int64_t stride = (rank + per_row - 1) / per_row * per_row;
  LayerSum sum(config, num_devices, dtype);
  for (const Module module : modules) sum.add(module, rank, stride);
  return sum.take();
}

std::vector<LayerLoad> layer_loads(const ModelSpec& config, const Adapter& adapter,
                                   std::int32_t num_devices) {
  LayerSum sum(config, num_devices, adapter.dtype);
  std::vector<LayerLoad> loads;
  loads.reserve(adapter.layers.size());
  for (const auto& layer : adapter.layers) {
    for (int m = 0; m < kNumModules; ++m) {
      const AdapterMatrix& matrix = layer[static_cast<std::size_t>(m)];
      if (matrix.rank > 0) sum.add(static_cast<Module>(m), matrix.rank, matrix.b_stride);
    }
    loads.push_back(sum.take());
  }
  return loads;
}

}  // namespace tandem
