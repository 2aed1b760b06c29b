#include "engine/adapters/adapter_strips.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "engine/loader/adapter_layout.h"
#include "tests/support/small_model.h"
#include "tests/support/test_seed.h"
#include "tests/support/uneven_model.h"

namespace tandem::test {
namespace {

// Makes an adapter with random modules and ranks whose words are 0, 1, 2, ..., so that a word shows
// where it comes from.
Adapter numbered_adapter(const ModelSpec& config, std::mt19937& random) {
  Adapter adapter;
  adapter.dtype = DType::f32;
  adapter.layers = AdapterLayers(config.num_layers(), config.modules.size());
  std::uniform_int_distribution<int> rank(-3, 9);
  for (std::int64_t layer = 0; layer < config.num_layers(); ++layer) {
    for (std::size_t module = 0; module < config.modules.size(); ++module) {
      const int drawn = rank(random);
      if (drawn <= 0 || module_out(config, layer, module) == 0) continue;
      const AdaptedModule& row = config.modules[module];
      append_matrix(adapter, config, layer, module,
                    row.is_whole()  ? row.width(config, config.layer(layer))
                    : row.is_vector ? 1
                                    : drawn);
    }
  }
  if (!allocate_bytes(adapter).ok()) ADD_FAILURE();
  auto* const words = reinterpret_cast<float*>(adapter.bytes.get());
  for (std::size_t i = 0; i < adapter.num_bytes / 4; ++i) words[i] = static_cast<float>(i);
  return adapter;
}

// Returns the memory of a device after the strips of all layers; untouched words are -1.
std::vector<float> brought(const Adapter& adapter, const Adapter& part, const ModelSpec& config,
                           Shard shard, bool together) {
  std::vector<float> device(part.num_bytes / 4, -1);
  const auto copy = [&](std::size_t layer, LayerParts parts) {
    for (const AdapterStrip& strip : strips_of_layer(
             adapter, part, config, shape_of_shard(config, shard.size), shard, layer, parts)) {
      for (std::size_t row = 0; row < strip.rows; ++row) {
        const std::size_t to = strip.to + row * strip.row_bytes;
        const std::size_t from = strip.from + row * strip.pitch;
        if (to + strip.row_bytes > part.num_bytes || from + strip.row_bytes > adapter.num_bytes) {
          ADD_FAILURE() << "layer " << layer << ": a strip from " << from << " to " << to;
          return;
        }
        std::memcpy(device.data() + to / 4, adapter.bytes.get() + from, strip.row_bytes);
      }
    }
  };
  for (std::size_t layer = 0; layer < adapter.layers.size(); ++layer) {
    if (together) {
      copy(layer, {});
    } else {
      copy(layer, {true, false});
      copy(layer, {false, true});
    }
  }
  return device;
}

TEST(AdapterStrips, BringEachRankItsRowsOfBAndColumnsOfA) {
  std::mt19937 random(static_cast<std::mt19937::result_type>(test_seed()));
  for (int round = 0; round < 24; ++round) {
    const std::int64_t layers = 1 + round % 3;
    const ModelSpec config = round % 3 == 0   ? small_model(layers)
                             : round % 3 == 1 ? uneven_model(layers, random)
                                              : small_model_with_layer_inputs();
    const Adapter adapter = numbered_adapter(config, random);
    const auto* const whole = reinterpret_cast<const float*>(adapter.bytes.get());
    const std::int32_t size = 1 + round / 2 % 2;
    const ModelSpec shape = shape_of_shard(config, size);
    const Adapter part = device_layout(adapter, config, size);
    for (std::int32_t rank = 0; rank < size; ++rank) {
      const std::vector<float> device =
          brought(adapter, part, config, {rank, size}, round % 8 >= 4);
      for (std::size_t layer = 0; layer < adapter.layers.size(); ++layer) {
        const auto number = static_cast<std::int64_t>(layer);
        for (std::size_t module = 0; module < config.modules.size(); ++module) {
          const std::string& path = config.modules[module].path;
          const AdapterMatrix& from = adapter.layers[layer][module];
          const AdapterMatrix& to = part.layers[layer][module];
          const AdaptedModule& row = config.modules[module];
          if (row.is_whole() && to.rank != from.rank) {  // a rank has some columns of B
            ASSERT_EQ(row.cut, ModuleCut::rows);
            ASSERT_EQ(to.rank * size, from.rank);
            for (std::int64_t o = 0; o < module_out(shape, number, module); ++o) {
              for (std::int64_t i = 0; i < to.rank; ++i) {
                const auto at = static_cast<std::int64_t>(to.b_offset / 4) + o * to.b_stride + i;
                const auto was = static_cast<std::int64_t>(from.b_offset / 4) + o * from.b_stride +
                                 rank * to.rank + i;
                ASSERT_EQ(device[static_cast<std::size_t>(at)], whole[was]) << path;
              }
            }
            continue;
          }
          ASSERT_EQ(from.rank, to.rank);
          const std::int64_t in = module_in(shape, number, module);
          const std::int64_t all_in = module_in(config, number, module);
          const std::int64_t first_in = all_in == in ? 0 : rank * in;
          for (std::int64_t r = 0; r < from.rank; ++r) {
            for (std::int64_t i = 0; i < in; ++i) {
              const auto at = static_cast<std::int64_t>(to.a_offset / 4) + r * in + i;
              const auto was =
                  static_cast<std::int64_t>(from.a_offset / 4) + r * all_in + first_in + i;
              ASSERT_EQ(device[static_cast<std::size_t>(at)], whole[was])
                  << path << " A, row " << r << ", rank " << rank << " of " << size;
            }
          }
          const std::int64_t out = from.rank == 0 ? 0 : module_out(shape, number, module);
          const std::int64_t first_out = module_out(config, number, module) == out ? 0 : rank * out;
          for (std::int64_t o = 0; o < out * from.b_stride; ++o) {
            const auto at = static_cast<std::int64_t>(to.b_offset / 4) + o;
            const auto was =
                static_cast<std::int64_t>(from.b_offset / 4) + first_out * from.b_stride + o;
            ASSERT_EQ(device[static_cast<std::size_t>(at)], whole[was]) << path;
          }
        }
      }
    }
  }
}

TEST(AdapterStrips, OfAWholeLayerAreOne) {
  const ModelSpec config = small_model(3);
  const Adapter adapter = make_dummy_adapter(
      config, DType::bf16, 12, {"q_proj", "k_proj", "v_proj", "o_proj", "down_proj"}, 1);
  const Adapter part = device_layout(adapter, config, 1);
  EXPECT_EQ(part.num_bytes, adapter.num_bytes);
  for (std::size_t layer = 0; layer < 3; ++layer) {
    EXPECT_EQ(strips_of_layer(adapter, part, config, config, {}, layer, {}).size(), 1U);
  }
}

}  // namespace
}  // namespace tandem::test
