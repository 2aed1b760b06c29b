#include "gpu/philox.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tandem {
namespace {

// The reference results that the Random123 paper's authors publish for philox4x32-10.
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(philox4x32({{0, 0, 0, 0}}, {{0, 0}}),
            (PhiloxWords{{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}));
  EXPECT_EQ(
      philox4x32({{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}}, {{0xffffffff, 0xffffffff}}),
      (PhiloxWords{{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}));
  EXPECT_EQ(
      philox4x32({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, {{0xa4093822, 0x299f31d0}}),
      (PhiloxWords{{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}));
}

TEST(DrawKey, IsUniformInTheOpenUnitInterval) {
  double by_position = 0;
  double by_token = 0;
  for (std::uint32_t i = 0; i < 10'000; ++i) {
    const double u = DrawKey(7, i).uniform(3);
    const double v = DrawKey(7, 5).uniform(i);
    ASSERT_GT(std::min(u, v), 0);
    ASSERT_LT(std::max(u, v), 1);
    by_position += u;
    by_token += v;
  }
  EXPECT_NEAR(by_position / 10'000, 0.5, 0.015);
  EXPECT_NEAR(by_token / 10'000, 0.5, 0.015);
}

TEST(DrawKey, DiffersBySeedPositionAndToken) {
  const double u = DrawKey(7, 5).uniform(3);
  EXPECT_NE(u, DrawKey(8, 5).uniform(3));
  EXPECT_NE(u, DrawKey(7, 6).uniform(3));
  EXPECT_NE(u, DrawKey(7, 5).uniform(4));
}

}  // namespace
}  // namespace tandem
