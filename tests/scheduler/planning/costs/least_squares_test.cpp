#include "scheduler/planning/costs/least_squares.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace tandem {
namespace {

TEST(LeastSquares, FindsTheLineThatTheDataCameFrom) {
  std::vector<std::vector<double>> x;
  std::vector<double> y;
  for (double tokens = 1; tokens <= 2048; tokens *= 2) {
    x.push_back({1, tokens});
    y.push_back(3e-3 + 2e-5 * tokens);
  }
  const auto fit = fit_linear(x, y);
  ASSERT_TRUE(fit.ok());
  EXPECT_NEAR(fit->coefficients[0], 3e-3, 1e-9);
  EXPECT_NEAR(fit->coefficients[1], 2e-5, 1e-11);
  EXPECT_NEAR(fit->r2, 1, 1e-9);
}

TEST(LeastSquares, RecoversRandomCoefficientsThroughNoise) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto real = [&](double low, double high) {
      return low * std::pow(high / low, std::uniform_real_distribution<double>(0, 1)(random));
    };
    const double a = real(1e-6, 1e-4);
    const double b = real(1e-12, 1e-10);
    const double c = real(1e-15, 1e-13);
    std::vector<std::vector<double>> x;
    std::vector<double> y;
    std::normal_distribution<double> noise(1, 0.02);
    for (int i = 0; i < 200; ++i) {
      x.push_back({1, real(1e4, 1e8), real(1e7, 1e11)});
      y.push_back((a + b * x.back()[1] + c * x.back()[2]) * noise(random));
    }
    const auto fit = fit_linear(x, y);
    ASSERT_TRUE(fit.ok());
    EXPECT_NEAR(fit->coefficients[0], a, 0.2 * a);
    EXPECT_NEAR(fit->coefficients[1], b, 0.1 * b);
    EXPECT_NEAR(fit->coefficients[2], c, 0.1 * c);
    EXPECT_GT(fit->r2, 0.95);
  }
}

TEST(LeastSquares, GivesNoCoefficientBelowZero) {
  // The values fall with x, so the best non-negative fit is a constant.
  const auto fit = fit_linear({{1, 1}, {1, 2}, {1, 3}}, {3, 2, 1});
  ASSERT_TRUE(fit.ok());
  EXPECT_EQ(fit->coefficients[1], 0);
  EXPECT_GT(fit->coefficients[0], 1);
}

TEST(LeastSquares, SurvivesColumnsThatSayTheSameOrNothing) {
  const auto fit =
      fit_linear({{1, 2, 4, 0}, {1, 3, 6, 0}, {1, 4, 8, 0}, {1, 7, 14, 0}}, {2, 3, 4, 7});
  ASSERT_TRUE(fit.ok());
  EXPECT_NEAR(fit->r2, 1, 1e-9);
}

TEST(LeastSquares, FindsAFloorAndALine) {
  std::vector<double> x;
  std::vector<double> y;
  for (double rows = 1; rows <= 2048; rows *= 2) {
    x.push_back(rows);
    y.push_back(std::max(120e-6, 0.55e-6 * rows));
  }
  const auto fit = fit_floor_and_line(x, y);
  ASSERT_TRUE(fit.ok());
  EXPECT_NEAR(fit->coefficients[0], 120e-6, 1e-9);
  EXPECT_NEAR(fit->coefficients[1], 0.55e-6, 1e-11);
  EXPECT_NEAR(fit->r2, 1, 1e-9);
  const auto flat = fit_floor_and_line({1, 2, 4}, {5, 5, 5});
  ASSERT_TRUE(flat.ok());
  EXPECT_NEAR(flat->coefficients[0], 5, 1e-9);
  EXPECT_LE(flat->coefficients[1] * 4, 5 + 1e-9);
}

TEST(LeastSquares, RefusesWhatIsNoMeasurement) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(fit_linear({}, {}).ok());
  EXPECT_FALSE(fit_linear({{1, 2}}, {1}).ok());
  EXPECT_FALSE(fit_linear({{1}, {1}}, {1, 0}).ok());
  EXPECT_FALSE(fit_linear({{1}, {1}}, {1, nan}).ok());
  EXPECT_FALSE(fit_linear({{1}, {nan}}, {1, 1}).ok());
  EXPECT_FALSE(fit_linear({{1}, {1, 2}}, {1, 1}).ok());
  EXPECT_FALSE(fit_floor_and_line({1}, {1}).ok());
  EXPECT_FALSE(fit_floor_and_line({0, 1}, {1, 1}).ok());
}

}  // namespace
}  // namespace tandem
