#include "gpu/check_args.h"

#include <gtest/gtest.h>

#include <array>

namespace tandem {
namespace {

TEST(CheckArgsDeathTest, RefuseAFormatOfWeightsThatLoadingShouldHaveRefused) {
  std::array<float, 16> numbers = {};
  const TensorView matrix(numbers.data(), DType::f32, {4, 4});
  GemmArgs args{matrix, matrix, {}, matrix};
  check_args(args);
  args.w.format = static_cast<WeightFormat>(200);
  EXPECT_DEATH(check_args(args), "weights of format 'unknown'");
}

}  // namespace
}  // namespace tandem
