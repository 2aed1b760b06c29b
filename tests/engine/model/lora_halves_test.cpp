#include "engine/model/step/lora_halves.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/support/small_model.h"

namespace tandem {
namespace {

// Reading a megabyte of A takes as long as a gather and a launch.
constexpr ShardCosts kCosts{.adapter_bytes_per_s = 1e12,
                            .gather_s = 0.9e-6,
                            .gather_bytes_per_s = 1e15,
                            .launch_s = 0.1e-6};
const LoraHalves::Shape kShape{.num_devices = 2,
                               .hidden_size = 4096,
                               .dtype = DType::bf16,
                               .max_rows = 64,
                               .modules = decoder_of({}).modules};

LoraHalves of(LoraSharding sharding) {
  return {{sharding, kCosts}, kShape};
}

constexpr SiteRanks kAllRanks = {48, 16, 32, 16};
constexpr SiteRanks kQkvRanks = {48, 0, 0, 0};
constexpr SiteSet kNone;

TEST(LoraHalves, AreNeverOfOneDevice) {
  EXPECT_FALSE(LoraHalves().any());
  EXPECT_EQ(LoraHalves().choose(8, 64, kAllRanks), kNone);
  EXPECT_EQ(LoraHalves().possible(8, 64), std::vector<SiteSet>{kNone});
}

TEST(LoraHalves, AreNeverOfReplicatedProducts) {
  EXPECT_FALSE(of(LoraSharding::replicated).any());
  EXPECT_EQ(of(LoraSharding::replicated).choose(64, 512, {9999, 9999, 9999, 9999}), kNone);
}

TEST(LoraHalves, AreWhereTheSettingSaysAndAdaptersHaveModules) {
  const LoraHalves gathered = of(LoraSharding::gathered);
  EXPECT_EQ(gathered.choose(1, 16, kAllRanks), (SiteSet{Site::qkv, Site::gate_up}));
  EXPECT_EQ(gathered.choose(1, 16, kQkvRanks), SiteSet{Site::qkv});
  const LoraHalves s_lora = of(LoraSharding::s_lora);
  EXPECT_EQ(s_lora.choose(1, 16, kAllRanks),
            (SiteSet{Site::qkv, Site::o, Site::gate_up, Site::down}));
  EXPECT_EQ(s_lora.choose(1, 16, kQkvRanks), SiteSet{Site::qkv});
}

// Half of A is not read, so it pays from two megabytes on: 256 ranks of 8 KB.
TEST(LoraHalves, AreWhatCostsLessWhereTheSettingIsAutomatic) {
  const LoraHalves halves = of(LoraSharding::automatic);
  EXPECT_EQ(halves.choose(32, 64, {192, 0, 128, 0}), kNone);
  EXPECT_EQ(halves.choose(32, 64, {384, 64, 128, 64}), SiteSet{Site::qkv});
  EXPECT_EQ(halves.choose(32, 64, {6144, 2048, 4096, 2048}), (SiteSet{Site::qkv, Site::gate_up}));
}

TEST(LoraHalves, AreOfNoMoreRowsThanThereIsRoomFor) {
  EXPECT_EQ(of(LoraSharding::gathered).choose(65, 16, kAllRanks), kNone);
}

// The chosen set may have more sites than needed: there are few sets, because steps are recorded
// for each.
TEST(LoraHalves, AreOfFewSetsWhateverModulesAdaptersHave) {
  const SiteRanks only_down = {0, 0, 0, 16};
  const SiteRanks only_gate_up = {0, 0, 32, 0};
  const SiteSet all = {Site::qkv, Site::o, Site::gate_up, Site::down};
  EXPECT_EQ(of(LoraSharding::s_lora).choose(8, 16, only_down), all);
  EXPECT_EQ(of(LoraSharding::gathered).choose(8, 16, only_down), kNone);
  EXPECT_EQ(of(LoraSharding::gathered).choose(8, 16, only_gate_up),
            (SiteSet{Site::qkv, Site::gate_up}));
  EXPECT_EQ(of(LoraSharding::automatic).choose(32, 64, {0, 0, 4096, 0}), SiteSet{Site::gate_up});
}

TEST(LoraHalves, AreNeverOfProjectionsThatEveryDeviceComputes) {
  const SiteRanks ranks = {0, 0, 0, 0, 512, 512, 512};
  LoraHalves::Shape shape = kShape;
  shape.modules = test::small_model_with_layer_inputs().modules;
  for (const LoraSharding sharding : kLoraShardings) {
    EXPECT_EQ(LoraHalves({sharding, kCosts}, shape).choose(32, 64, ranks), kNone);
  }
}

TEST(LoraHalves, ArePossibleWhereverAStepMayChooseThem) {
  EXPECT_EQ(of(LoraSharding::automatic).possible(1, 16), std::vector<SiteSet>{kNone});
  std::mt19937_64 random(20261125);
  const auto up_to = [&](std::int32_t most) {
    return std::uniform_int_distribution<std::int32_t>(0, most)(random);
  };
  for (const LoraSharding sharding : kLoraShardings) {
    const LoraHalves halves = of(sharding);
    EXPECT_EQ(halves.possible(64, 0), std::vector<SiteSet>{kNone});
    for (int round = 0; round < 500; ++round) {
      const std::int32_t rows = 1 + up_to(63);
      const std::int32_t rank = 1 + up_to(127);
      const std::int32_t most = rows * rank;
      const SiteSet set =
          halves.choose(rows, rank, {up_to(3 * most), up_to(most), up_to(2 * most), up_to(most)});
      const std::vector<SiteSet> all = halves.possible(rows + up_to(8), rank + up_to(128));
      EXPECT_NE(std::ranges::find(all, set), all.end()) << rows << " rows of rank " << rank;
    }
  }
}

}  // namespace
}  // namespace tandem
