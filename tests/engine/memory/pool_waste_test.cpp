// Measures how much of the pool adapters waste and how long their copied pieces are, at the shapes
// of real models. These figures justify the page and chunk sizes in pool_layout.h. Prints them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "engine/loader/adapter.h"
#include "engine/loader/adapter_layout.h"
#include "engine/memory/page_pool.h"
#include "engine/memory/pool_layout.h"

namespace tandem {
namespace {

struct Shape {
  std::string name;
  ModelSpec config;
};

Shape shape(const std::string& name, std::int64_t hidden, std::int64_t layers, std::int64_t heads,
            std::int64_t kv_heads, std::int64_t ffn) {
  DecoderShape shape;
  shape.hidden_size = hidden;
  shape.num_layers = layers;
  shape.num_heads = heads;
  shape.num_kv_heads = kv_heads;
  shape.head_dim = hidden / heads;
  shape.ffn_size = ffn;
  return {name, decoder_of(shape)};
}

std::vector<Shape> shapes() {
  return {shape("llama-2-7b", 4096, 32, 32, 32, 11008), shape("llama-3-8b", 4096, 32, 32, 8, 14336),
          shape("qwen2.5-7b", 3584, 28, 28, 4, 18944)};
}

struct Kind {
  const char* name;
  std::vector<std::string_view> modules;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"qkv", {"q_proj", "k_proj", "v_proj"}},
      {"all7", {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}}};
  return all;
}

// An adapter's size and the offset of each layer.
struct Outline {
  std::size_t bytes = 0;
  std::vector<std::size_t> layers;  // [num_layers + 1]
};

Outline outline(const ModelSpec& config, std::int64_t rank, const Kind& kind) {
  Adapter adapter;
  adapter.dtype = DType::bf16;
  adapter.layers = AdapterLayers(config.num_layers(), config.modules.size());
  Outline result;
  for (std::int64_t layer = 0; layer < config.num_layers(); ++layer) {
    result.layers.push_back(adapter.num_bytes);
    for (const std::string_view module : kind.modules)
      append_matrix(adapter, config, layer, config.modules.row(module), rank);
  }
  result.bytes = adapter.num_bytes;
  result.layers.push_back(adapter.num_bytes);
  return result;
}

double mb(std::size_t bytes) {
  return static_cast<double>(bytes) / 1e6;
}

TEST(PoolWaste, IsAtMostFivePercentOfAnAdapterAtRanks8To128) {
  std::printf("%-11s %9s %8s %5s %5s %9s %7s\n", "model", "page KiB", "chunk", "rank", "kind", "MB",
              "waste");
  for (const Shape& each : shapes()) {
    const PoolLayout layout = PoolLayout::of(each.config, DType::bf16, 16);
    for (const Kind& kind : kinds()) {
      for (const std::int64_t rank : {8, 16, 32, 64, 128}) {
        const std::size_t bytes = outline(each.config, rank, kind).bytes;
        const std::size_t taken = static_cast<std::size_t>(layout.chunks_for(bytes))
                                  << layout.chunk_shift;
        const double waste = 1 - static_cast<double>(bytes) / static_cast<double>(taken);
        std::printf("%-11s %9zu %8zu %5ld %5s %9.1f %6.2f%%\n", each.name.c_str(),
                    layout.page_bytes >> 10, layout.chunk_bytes() >> 10, rank, kind.name, mb(bytes),
                    100 * waste);
        EXPECT_LE(waste, 0.05);
      }
    }
  }
}

// Adapters of mixed ranks come and go beside KV until the pool is completely fragmented.
TEST(PoolWaste, StaysSmallAndPiecesLongInAPoolThatHasSeenManyAdapters) {
  const unsigned seed = 20261120;
  std::printf("seed %u; 2,000 loads into 40 GB, half of it KV\n", seed);
  std::printf("%-11s %5s %9s %11s %13s %13s\n", "model", "kind", "adapters", "waste+spare",
              "mean copy", "layer pieces");
  for (const Shape& each : shapes()) {
    const PoolLayout layout = PoolLayout::of(each.config, DType::bf16, 16);
    for (const Kind& kind : kinds()) {
      std::mt19937 random(seed);
      const auto num_pages = static_cast<std::int32_t>(40'000'000'000 / layout.page_bytes);
      PagePool pool(num_pages, 16, layout.chunks_per_page);
      std::vector<PageId> kv;
      struct Loaded {
        Outline outline;
        ChunkTable chunks;
      };
      std::vector<Loaded> loaded;
      for (int load = 0; load < 2000; ++load) {
        // Sequences of a few hundred tokens take and release KV pages.
        for (int i = 0; i < 64 && static_cast<std::int32_t>(kv.size()) < num_pages / 2; ++i) {
          if (pool.num_free() > 0) kv.push_back(pool.take_page());
        }
        for (int i = 0; i < 48 && !kv.empty(); ++i) {
          std::swap(kv[random() % kv.size()], kv.back());
          pool.drop_reference(kv.back());
          kv.pop_back();
        }
        const std::int64_t rank = std::int64_t{8} << random() % 5;
        Outline wanted = outline(each.config, rank, kind);
        for (;;) {
          auto chunks = pool.take_chunks(layout.chunks_for(wanted.bytes));
          if (chunks) {
            loaded.push_back({std::move(wanted), std::move(*chunks)});
            break;
          }
          std::swap(loaded[random() % loaded.size()], loaded.back());
          loaded.pop_back();
        }
      }
      std::size_t bytes = 0;
      std::size_t copies = 0;
      std::size_t pieces = 0;
      for (const Loaded& adapter : loaded) {
        bytes += adapter.outline.bytes;
        for (std::size_t layer = 0; layer + 1 < adapter.outline.layers.size(); ++layer) {
          copies += adapter.chunks
                        .runs(adapter.outline.layers[layer], adapter.outline.layers[layer + 1],
                              layout.chunk_shift)
                        .size();
          ++pieces;
        }
      }
      const double held =
          static_cast<double>(pool.counts().adapter) * static_cast<double>(layout.page_bytes);
      const double waste = 1 - static_cast<double>(bytes) / held;
      std::printf("%-11s %5s %9zu %10.2f%% %10.2f MB %10.2f MB\n", each.name.c_str(), kind.name,
                  loaded.size(), 100 * waste, mb(bytes) / static_cast<double>(copies),
                  mb(bytes) / static_cast<double>(pieces));
      EXPECT_LE(waste, 0.05);
      for (const PageId page : kv) pool.drop_reference(page);
    }
  }
}

}  // namespace
}  // namespace tandem
