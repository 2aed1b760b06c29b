#include "engine/model/layers/rotary_table.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tandem {
namespace {

TEST(RotaryTable, TurnsByPositionTimesFrequency) {
  RotarySpec rotary;
  const std::vector<float> table = make_rotary_table(rotary, 8, 5);
  ASSERT_EQ(table.size(), 5U * 2 * 4);
  for (std::size_t position = 0; position < 5; ++position) {
    for (std::size_t i = 0; i < 4; ++i) {
      const double angle =
          static_cast<double>(position) * std::pow(10000.0, -static_cast<double>(i) / 4);
      EXPECT_NEAR(table[position * 8 + i], std::cos(angle), 1e-6);
      EXPECT_NEAR(table[position * 8 + 4 + i], std::sin(angle), 1e-6);
    }
  }
}

TEST(RotaryTable, StretchesLongWavesAsLlama3Does) {
  RotarySpec plain;
  plain.theta = 500000;
  RotarySpec scaled = plain;
  scaled.llama3 = RotarySpec::Llama3Scaling{};
  const std::vector<double> before = rotary_frequencies(plain, 128);
  const std::vector<double> after = rotary_frequencies(scaled, 128);
  EXPECT_EQ(after.front(), before.front());           // short waves are unchanged
  EXPECT_DOUBLE_EQ(after.back(), before.back() / 8);  // long waves are stretched by the factor
  bool between = false;
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_LE(after[i], before[i]);
    EXPECT_GE(after[i], before[i] / 8);
    between |= after[i] < before[i] * 0.99 && after[i] > before[i] / 8 * 1.01;
    if (i > 0) {
      EXPECT_LT(after[i], after[i - 1]);
    }
  }
  EXPECT_TRUE(between);
}

}  // namespace
}  // namespace tandem
