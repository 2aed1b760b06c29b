#include "engine/profile/layer_load.h"

#include <span>
#include <utility>

#include "base/dtype.h"

namespace tandem {
namespace {

// Accumulates the modules of one layer.
class LayerSum {
 public:
  LayerSum(const ModelSpec& spec, std::int32_t num_devices, DType dtype)
      : spec_(spec),
        num_devices_(num_devices),
        element_bytes_(static_cast<std::int64_t>(size_of(dtype))) {}

  void add(std::int64_t layer, std::size_t module, std::int64_t rank, std::int64_t b_stride) {
    const AdaptedModule& row = spec_.modules[module];
    const std::int64_t in = module_in(spec_, layer, module);
    const std::int64_t out = module_out(spec_, layer, module);
    const std::int64_t in_here = row.cut == ModuleCut::rows ? in / num_devices_ : in;
    // A whole matrix is cut by rows or columns of B.
    const bool cuts_b =
        row.cut == ModuleCut::columns || (row.is_whole() && row.cut != ModuleCut::none);
    const std::int64_t out_here = cuts_b ? out / num_devices_ : out;
    load_.a_bytes += rank * in_here * element_bytes_;
    load_.b_bytes += out_here * b_stride * element_bytes_;
    load_.a_elsewhere += rank * (in - in_here) * element_bytes_;
    load_.b_elsewhere += (out - out_here) * b_stride * element_bytes_;
    load_.modules += 1;
    if (!takes_offers(row.site)) return;
    load_.ranks += static_cast<std::int32_t>(rank);
    load_.out_elements += out;
    const std::uint32_t site = 1U << static_cast<unsigned>(row.site);  // computed as one product
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
  const ModelSpec& spec_;
  const std::int32_t num_devices_;
  const std::int64_t element_bytes_;
  LayerLoad load_;
  std::uint32_t sites_ = 0;
};

}  // namespace

LayerLoad layer_load(const ModelSpec& spec, DType dtype, std::int32_t rank,
                     const std::vector<std::string_view>& modules, std::int32_t num_devices) {
  const auto per_row = static_cast<std::int64_t>(16 / size_of(dtype));
  // Rows of B are padded to multiples of 16 bytes.
  const std::int64_t stride = (rank + per_row - 1) / per_row * per_row;
  LayerSum sum(spec, num_devices, dtype);
  for (const std::string_view name : modules) sum.add(0, spec.modules.row(name), rank, stride);
  return sum.take();
}

std::vector<LayerLoad> layer_loads(const ModelSpec& spec, const Adapter& adapter,
                                   std::int32_t num_devices) {
  LayerSum sum(spec, num_devices, adapter.dtype);
  std::vector<LayerLoad> loads;
  loads.reserve(adapter.layers.size());
  for (std::size_t layer = 0; layer < adapter.layers.size(); ++layer) {
    const std::span<const AdapterMatrix> matrices = adapter.layers[layer];
    for (std::size_t m = 0; m < matrices.size(); ++m) {
      if (matrices[m].rank == 0) continue;
      sum.add(static_cast<std::int64_t>(layer), m, matrices[m].rank, matrices[m].b_stride);
    }
    loads.push_back(sum.take());
  }
  return loads;
}

}  // namespace tandem
