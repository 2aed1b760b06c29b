#include "gpu/check_args.h"

#include <gtest/gtest.h>

#include <array>

namespace tandem {
namespace {

TEST(CheckArgsDeathTest, RefusePackedWeightsWithoutCodesOrScales) {
  std::array<float, 16> numbers = {};
  const TensorView matrix(numbers.data(), DType::f32, {4, 4});
  GemmArgs args{matrix, matrix, {}, matrix};
  check_args(args);
  args.w.form = {
      .format = WeightFormat::affine, .bits = 4, .group = 4, .scales = {.has_values = true}};
  args.w.packed_rows = args.w.packed_cols = 4;
  EXPECT_DEATH(check_args(args), "affine of 4 bits");
  std::array<std::uint8_t, 8> codes = {};
  args.w.packed.low = codes.data();
  check_args(args);
  args.w.form.scales.has_values = false;
  EXPECT_DEATH(check_args(args), "affine of 4 bits");
}

}  // namespace
}  // namespace tandem
