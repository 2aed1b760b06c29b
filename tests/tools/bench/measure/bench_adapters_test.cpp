#include "tools/bench/measure/bench_adapters.h"

#include <gtest/gtest.h>

#include "gpu/host/host_device.h"
#include "tests/support/small_model.h"

namespace tandem {
namespace {

TEST(BenchAdapters, SizesAreThoseOfTheAdaptersUpToPadding) {
  const ModelSpec config = test::small_model(2);
  for (const std::int32_t rank : {8, 16, 64}) {
    for (const auto& modules : {qkv_modules(), all_modules()}) {
      const Adapter adapter = make_dummy_adapter(config, DType::bf16, rank, modules, 1);
      const std::size_t bytes = adapter_bytes(config, DType::bf16, {"", rank, modules});
      EXPECT_LE(bytes, adapter.num_bytes);
      EXPECT_GE(bytes + 2 * 7 * 2 * 64, adapter.num_bytes);  // layers, modules, A and B
    }
  }
}

TEST(BenchAdapters, MayHaveWholeModules) {
  const ModelSpec config = test::small_model(2);
  const std::vector<Site> whole = {Site::whole_head};
  const Adapter adapter = make_dummy_adapter(config, DType::bf16, 8, qkv_modules(), 1, whole);
  const std::size_t bytes = adapter_bytes(config, DType::bf16, {"", 8, qkv_modules(), whole});
  const std::size_t head = static_cast<std::size_t>(config.vocab_size * config.hidden_size) * 2;
  EXPECT_EQ(bytes, head + adapter_bytes(config, DType::bf16, {"", 8, qkv_modules()}));
  EXPECT_LE(bytes, adapter.num_bytes);
  EXPECT_GE(bytes + (2 * 3 * 2 + 1) * 64, adapter.num_bytes);
}

class BenchAdaptersOnNodes : public ::testing::TestWithParam<std::size_t> {};

TEST_P(BenchAdaptersOnNodes, AllFitIntoTheirHostTierAndDiffer) {
  const ModelSpec config = test::small_model(2);
  std::vector<DummyAdapter> wanted;
  for (int i = 0; i < 13; ++i) {
    wanted.push_back({std::to_string(i), i % 2 == 0 ? 8 : 16, qkv_modules()});
  }
  const auto device = std::move(make_host_device({})).value();
  AdapterStoreOptions options;
  options.max_adapters = 13;
  options.max_rank = 16;
  options.host_tier_bytes = host_tier_bytes_for(config, DType::bf16, wanted, GetParam());
  options.host_tier_nodes.assign(GetParam(), -1);
  auto store = AdapterStore::create(*device, config, DType::bf16, options);
  ASSERT_TRUE(store) << store.status().message();
  std::size_t told = 0;
  const Status added = add_dummy_adapters(**store, config, DType::bf16, wanted,
                                          [&](std::size_t done) { told = done; });
  ASSERT_TRUE(added) << added.message();
  EXPECT_EQ(told, 13U);
  EXPECT_EQ((*store)->list().size(), 13U);
  EXPECT_NE((*store)->find("0")->contents().digest, (*store)->find("2")->contents().digest);
}

INSTANTIATE_TEST_SUITE_P(Of, BenchAdaptersOnNodes, ::testing::Values(1, 4));

TEST(BenchAdapters, HaveAHostTierAlsoWhenThereAreNone) {
  const auto device = std::move(make_host_device({})).value();
  AdapterStoreOptions options;
  options.max_adapters = 0;
  options.max_rank = 0;
  options.host_tier_bytes = host_tier_bytes_for(test::small_model(2), DType::bf16, {});
  const auto store = AdapterStore::create(*device, test::small_model(2), DType::bf16, options);
  EXPECT_TRUE(store) << store.status().message();
}

}  // namespace
}  // namespace tandem
