#include "tools/bench/measure/byte_floor.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

// 100 bytes or 1000 operations take a second; a step reads 100 bytes of weights.
ByteCosts round_costs() {
  ByteCosts costs;
  costs.copy = 100;
  costs.products = 1000;
  costs.weight_bytes = 100;
  costs.token_bytes = 1;
  costs.token_products = 10;
  costs.adapter_bytes = {{"a", 20}, {"b", 30}};
  costs.max_sequences = 8;
  costs.max_prompt_tokens = 1000;
  costs.pool_bytes = 1e9;
  return costs;
}

TEST(ByteFloor, ReadsTheWeightsInEveryStepAndAllTokensSoFar) {
  // The three steps read 100 + 10, 100 + 11 and 100 + 12 bytes.
  EXPECT_DOUBLE_EQ(least_seconds({{5, "", 10, 3}}, round_costs()), 3.33);
  EXPECT_EQ(least_seconds({}, round_costs()), 0);
}

TEST(ByteFloor, ReadsAnAdapterOnceForAllOfItsSequences) {
  const double one = least_seconds({{0, "a", 10, 1}}, round_costs());
  EXPECT_DOUBLE_EQ(one, 1.3);
  EXPECT_DOUBLE_EQ(least_seconds({{0, "a", 10, 1}, {0, "a", 10, 1}}, round_costs()), one + 0.1);
  EXPECT_DOUBLE_EQ(least_seconds({{0, "a", 10, 1}, {0, "b", 10, 1}}, round_costs()), one + 0.4);
}

TEST(ByteFloor, IsTheArithmeticOfPromptsWhereThatTakesLonger) {
  EXPECT_DOUBLE_EQ(least_seconds({{0, "", 500, 1}}, round_costs()), 6);  // the prompt takes 5 s
}

TEST(ByteFloor, WaitsForArrivals) {
  EXPECT_DOUBLE_EQ(least_seconds({{0, "", 10, 1}, {50, "", 10, 1}}, round_costs()), 50 + 1.1);
  // The second request comes during the first of two steps, so the second step has both.
  EXPECT_DOUBLE_EQ(least_seconds({{0, "", 10, 2}, {0.5, "", 10, 1}}, round_costs()), 1.1 + 1.21);
}

TEST(ByteFloor, TakesARequestWhenThereIsRoomForIt) {
  const ArrivalTrace two = {{0, "a", 10, 1}, {0, "b", 10, 1}};
  const double apart = 1.3 + 1.4;
  ByteCosts costs = round_costs();
  costs.max_sequences = 1;
  EXPECT_DOUBLE_EQ(least_seconds(two, costs), apart);
  costs = round_costs();
  costs.max_prompt_tokens = 15;
  EXPECT_DOUBLE_EQ(least_seconds(two, costs), apart);
  costs = round_costs();
  costs.pool_bytes = 60;  // 31 bytes for the first request, 41 for the second
  EXPECT_DOUBLE_EQ(least_seconds(two, costs), apart);
  costs.pool_bytes = 72;
  EXPECT_DOUBLE_EQ(least_seconds(two, costs), 1.7);
}

TEST(ByteFloor, EndsWhereARequestIsLargerThanAllRoom) {
  ByteCosts costs = round_costs();
  costs.pool_bytes = 1;
  costs.max_prompt_tokens = 1;
  EXPECT_DOUBLE_EQ(least_seconds({{0, "a", 10, 1}}, costs), 1.3);
}

}  // namespace
}  // namespace tandem
