#include "tools/report/plot_axis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tandem {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

TEST(AxisTicks, AreOnesTwosAndFives) {
  EXPECT_THAT(axis_ticks(0, 1, false, 5),
              ElementsAre(0, DoubleNear(0.2, 1e-9), DoubleNear(0.4, 1e-9), DoubleNear(0.6, 1e-9),
                          DoubleNear(0.8, 1e-9), 1));
  EXPECT_THAT(axis_ticks(3, 33, false, 6), ElementsAre(5, 10, 15, 20, 25, 30));
  EXPECT_THAT(axis_ticks(-7, 12, false, 4), ElementsAre(-5, 0, 5, 10));
}

TEST(AxisTicks, OfALogarithmicAxisAreDecadesOrTheirParts) {
  EXPECT_THAT(axis_ticks(3, 60, true), ElementsAre(5, 10, 20, 50));
  EXPECT_THAT(axis_ticks(0.5, 20000, true), ElementsAre(1, 10, 100, 1000, 10000));
}

TEST(AxisTicks, OfALogarithmicAxisWithinADecadeAreThoseOfALinearOne) {
  EXPECT_THAT(axis_ticks(12, 19, true, 4), ElementsAre(12, 14, 16, 18));
}

TEST(TickText, IsShort) {
  EXPECT_EQ(tick_text(-0.0), "0");
  EXPECT_EQ(tick_text(0.25), "0.25");
  EXPECT_EQ(tick_text(5000), "5000");
  EXPECT_EQ(tick_text(40000), "40k");
  EXPECT_EQ(tick_text(-2.5e6), "-2.5M");
  EXPECT_EQ(tick_text(3e9), "3G");
}

TEST(PlotAxis, PlacesItsDataBetweenItsEndsAndLeavesOutWhatItCannotShow) {
  for (const bool logarithmic : {false, true}) {
    PlotAxis axis(logarithmic, 10, 110);
    EXPECT_FALSE(axis.shows(std::nan("")));
    EXPECT_FALSE(axis.shows(std::numeric_limits<double>::infinity()));
    EXPECT_EQ(axis.shows(0), !logarithmic);
    EXPECT_TRUE(axis.empty());
    axis.include(1);
    axis.include(100);
    axis.finish(false);
    EXPECT_GE(axis.place(1), 10);
    EXPECT_LE(axis.place(100), 110);
    EXPECT_NEAR(axis.place(logarithmic ? 10 : 50.5), 60, 1);
  }
}

}  // namespace
}  // namespace tandem
