#include "scheduler/planning/costs/cost_model.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/test_seed.h"

namespace tandem {
namespace {

TEST(CostModel, SlowedSaysOfEverythingThatItTakesSoManyTimesAsLong) {
  std::mt19937_64 random(test_seed());
  const auto pick = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  CostModel costs;
  costs.factors.link = 2;  // learned from the old figures, so not valid for others
  const CostModel plain = costs.slowed(1);
  EXPECT_EQ(plain.factors, CostFactors());
  for (const double times : {3.0, 1.0 / 3, 1.7}) {
    const CostModel slow = costs.slowed(times);
    EXPECT_DOUBLE_EQ(slow.offer_s, times * plain.offer_s) << "which trip_s hides below";
    for (int round = 0; round < 50; ++round) {
      const LayerLoad layer{.a_bytes = pick(1, 1 << 22),
                            .b_bytes = pick(1, 1 << 22),
                            .copies = pick(1, 8),
                            .modules = 3,
                            .sites = pick(1, 4),
                            .ranks = pick(1, 256),
                            .in_elements = pick(1, 1 << 14),
                            .out_elements = pick(1, 1 << 14)};
      const int rows = pick(1, 512);
      const int workers = pick(1, 32);
      EXPECT_DOUBLE_EQ(slow.layer_time(rows), times * plain.layer_time(rows));
      const double load = times * plain.load_time(layer.a_bytes, layer.copies);
      EXPECT_NEAR(slow.load_time(layer.a_bytes, layer.copies), load, 1e-9 * load);
      for (const bool xa : {false, true}) {
        const double stall = times * plain.cpu_time(layer, rows, workers, xa);
        EXPECT_NEAR(slow.cpu_time(layer, rows, workers, xa), stall, 1e-9 * stall);
      }
    }
  }
}

}  // namespace
}  // namespace tandem
