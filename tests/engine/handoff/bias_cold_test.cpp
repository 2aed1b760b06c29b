// Adapters with biases (lora_bias) that are cold: workers add them in y, and the device where it
// multiplies by B itself.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "base/lora_rows.h"
#include "engine/loader/adapter_layout.h"
#include "tests/support/handoff_engine.h"

namespace tandem::test {
namespace {

constexpr int kAdapters = 3;

// On all modules of the layers; its biases are large, so that none can be missing unnoticed.
Adapter biased_adapter(const ModelSpec& spec, std::int64_t rank, unsigned seed) {
  Adapter adapter;
  adapter.layers = AdapterLayers(spec.num_layers(), spec.modules.size());
  adapter.dtype = DType::f32;
  const auto each_module = [&](const auto& body) {
    for (std::int64_t layer = 0; layer < spec.num_layers(); ++layer) {
      for (std::size_t m = 0; m < spec.modules.size(); ++m) {
        if (takes_offers(spec.modules[m].site) && module_out(spec, layer, m) > 0) body(layer, m);
      }
    }
  };
  each_module([&](std::int64_t layer, std::size_t m) {
    append_matrix(adapter, spec, layer, m, rank, /*has_bias=*/true);
  });
  EXPECT_TRUE(allocate_bytes(adapter).ok());
  std::memset(adapter.bytes.get(), 0, adapter.num_bytes);
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> number(-1, 1);
  each_module([&](std::int64_t layer, std::size_t m) {
    const AdapterMatrix& matrix = adapter.layers[static_cast<std::size_t>(layer)][m];
    auto* const a = reinterpret_cast<float*>(adapter.bytes.get() + matrix.a_offset);
    auto* const b = reinterpret_cast<float*>(adapter.bytes.get() + matrix.b_offset);
    for (std::int64_t i = 0; i < rank * module_in(spec, layer, m); ++i)
      a[i] = 0.1F * number(random);
    const std::int64_t inner = lora_inner(rank, matrix.b_stride, DType::f32);
    for (std::int64_t row = 0; row < module_out(spec, layer, m); ++row) {
      for (std::int64_t i = 0; i < rank; ++i) b[row * matrix.b_stride + i] = 0.1F * number(random);
      b[row * matrix.b_stride + inner - 1] = number(random);
    }
  });
  EXPECT_TRUE(set_digest(adapter).ok());
  return adapter;
}

std::vector<std::vector<TokenId>> answers(AdapterMode mode, bool closed, int num_devices) {
  auto engine = HandoffEngine::make(mode, 0, 0, 0, nullptr, handoff_config(), num_devices);
  for (int i = 0; i < kAdapters; ++i) {
    EXPECT_TRUE(engine->engine->adapter_store()
                    .add(handoff_name(i),
                         biased_adapter(handoff_config(), 3 + i, static_cast<unsigned>(i)), false,
                         false)
                    .ok());
  }
  if (closed) engine->gate().close(LoadGate::kAll);
  std::vector<std::vector<TokenId>> all;
  for (int i = 0; i < kAdapters; ++i) {
    auto generation = engine->engine->submit(handoff_request(i, 9 + i, 4)).value();
    all.push_back(collect(*generation)[0].tokens);
    if (closed) {
      EXPECT_GT(generation->stats().cpu_layers, 0) << "workers had nothing to do";
    }
  }
  return all;
}

TEST(ColdBiases, AreAddedByWorkersAsOnTheDevice) {
  for (const int devices : {1, 2}) {
    const auto expected = answers(AdapterMode::on_demand, false, devices);
    EXPECT_NE(expected[0], expected[1]);
    EXPECT_EQ(answers(AdapterMode::cpu_assist, true, devices), expected) << devices << " devices";
    EXPECT_EQ(answers(AdapterMode::planned, false, devices), expected) << devices << " devices";
  }
}

}  // namespace
}  // namespace tandem::test
