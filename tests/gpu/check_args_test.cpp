#include "gpu/check_args.h"

#include <gtest/gtest.h>

#include <array>

namespace tandem {
namespace {

TEST(CheckArgsDeathTest, RefusePackedWeightsWithoutAnArrayOfTheirForm) {
  std::array<float, 16> numbers = {};
  const TensorView matrix(numbers.data(), DType::f32, {4, 4});
  GemmArgs args{matrix, matrix, {}, matrix};
  check_args(args);
  args.w.form = {
      .format = WeightFormat::affine, .bits = 4, .group = 4, .scales = {.has_values = true}};
  args.w.packed_rows = args.w.packed_cols = 4;
  EXPECT_DEATH(check_args(args), "affine of 4 bits without an array");
  std::array<std::uint8_t, 16> bytes = {};
  args.w.packed.low = bytes.data();
  EXPECT_DEATH(check_args(args), "affine of 4 bits without an array");
  args.w.packed.scales = reinterpret_cast<std::byte*>(bytes.data());
  check_args(args);
  args.w.form.bits = 5;
  EXPECT_DEATH(check_args(args), "affine of 5 bits without an array");
  args.w.form.bits = 4;
  args.w.form.has_zeros = true;
  EXPECT_DEATH(check_args(args), "affine of 4 bits without an array");
  args.w.form.has_zeros = false;
  args.w.form.scales.has_values = false;
  EXPECT_DEATH(check_args(args), "affine of 4 bits");
}

}  // namespace
}  // namespace tandem
