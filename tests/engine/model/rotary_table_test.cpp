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

TEST(RotaryTable, GrowsThetaWithTheLengthOfDynamicRope) {
  RotarySpec rotary;
  rotary.dynamic = {4, 100};
  RotarySpec grown;
  grown.theta = 10000 * std::pow(4 * 1.5 - 3, 16.0 / 14);
  EXPECT_EQ(rotary_frequencies(rotary, 16, 100), rotary_frequencies(RotarySpec(), 16));
  const std::vector<double> wanted = rotary_frequencies(grown, 16);
  const std::vector<float> choices = make_rotary_choices(rotary, 16, 160);
  ASSERT_EQ(choices.size(), 61U * 8);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_DOUBLE_EQ(rotary_frequencies(rotary, 16, 150)[i], wanted[i]);
    EXPECT_FLOAT_EQ(choices[50 * 8 + i], static_cast<float>(wanted[i]));
  }
}

TEST(RotaryTable, DividesByTheListThatSuitsTheLengthOfLongRope) {
  RotarySpec rotary;
  rotary.longrope = {{1, 2}, {4, 8}, 100};
  const std::vector<double> plain = rotary_frequencies(RotarySpec(), 4);
  const std::vector<float> choices = make_rotary_choices(rotary, 4, 1000);
  ASSERT_EQ(choices.size(), 4U);
  EXPECT_FLOAT_EQ(choices[1], static_cast<float>(plain[1] / 2));
  EXPECT_FLOAT_EQ(choices[2], static_cast<float>(plain[0] / 4));
  EXPECT_EQ(rotary_frequencies(rotary, 4, 100)[1], plain[1] / 2);
  EXPECT_EQ(rotary_frequencies(rotary, 4, 101)[1], plain[1] / 8);
}

TEST(RotaryLengths, KeepKeysOfASequenceUntilItOutgrowsTheOriginalLength) {
  const RotaryLengths longrope{100, true};
  EXPECT_EQ(longrope.of(20, 100), 0);
  EXPECT_EQ(longrope.of(20, 101), 101);
  EXPECT_EQ(longrope.of(20, 300), 101) << "all long sequences rotate alike";
  EXPECT_FALSE(longrope.outgrown(0, 100));
  EXPECT_TRUE(longrope.outgrown(0, 101));
  EXPECT_FALSE(longrope.outgrown(101, 300));
  const RotaryLengths dynamic{100, false};
  EXPECT_EQ(dynamic.of(100, 300), 0) << "the prompt's length counts";
  EXPECT_EQ(dynamic.of(130, 300), 130);
  EXPECT_FALSE(dynamic.outgrown(0, 300));
  EXPECT_EQ(RotaryLengths().of(1000, 1000), 0);
}

TEST(RotaryTable, LeavesPairsAloneThatDoNotTurn) {
  RotarySpec rotary;
  rotary.turning = 2;
  const std::vector<double> frequencies = rotary_frequencies(rotary, 8);
  EXPECT_EQ(frequencies[1], rotary_frequencies(RotarySpec(), 8)[1]);
  EXPECT_EQ(frequencies[2], 0);
  EXPECT_EQ(frequencies[3], 0);
}

TEST(RotaryTable, ScalesQueriesByThePartsOfTheContextBeforeThem) {
  const std::vector<float> scales = make_query_scales({0.5, 4}, 9);
  EXPECT_EQ(scales[3], 1);
  EXPECT_FLOAT_EQ(scales[4], 1 + 0.5F * std::log(2.0F));
  EXPECT_FLOAT_EQ(scales[7], scales[4]);
  EXPECT_FLOAT_EQ(scales[8], 1 + 0.5F * std::log(3.0F));
}

}  // namespace
}  // namespace tandem
