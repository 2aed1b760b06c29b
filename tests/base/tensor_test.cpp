#include "base/tensor.h"

#include <gtest/gtest.h>

#include <array>

namespace tandem {
namespace {

TEST(TensorView, SlicesPointIntoTheSameMemory) {
  std::array<float, 24> data{};
  const TensorView view(data.data(), DType::f32, {4, 6});
  EXPECT_TRUE(view.is_dense());
  const TensorView part = view.slice_rows(1, 2).slice_cols(2, 4);
  EXPECT_EQ(part.data, &data[1 * 6 + 2]);
  EXPECT_EQ(part.rows(), 2);
  EXPECT_EQ(part.cols(), 4);
  EXPECT_EQ(part.stride[0], 6);
  EXPECT_FALSE(part.is_dense());
  EXPECT_EQ(to_string(part), "f32[2, 4]");
}

TEST(TensorView, SplitsColumnsIntoHeads) {
  std::array<float, 24> data{};
  const TensorView heads =
      TensorView(data.data(), DType::f32, {2, 12}).slice_cols(4, 6).split_cols(3);
  EXPECT_EQ(heads.rank, 3);
  EXPECT_EQ(heads.dim[1], 3);
  EXPECT_EQ(heads.dim[2], 2);
  EXPECT_EQ(heads.stride[0], 12);
  EXPECT_EQ(heads.stride[1], 2);
}

TEST(TensorViewDeathTest, RefusesASliceOutOfBounds) {
  std::array<float, 4> data{};
  const TensorView view(data.data(), DType::f32, {2, 2});
  EXPECT_DEATH((void)view.slice_rows(1, 2), "rows 1\\+2 of 2");
}

}  // namespace
}  // namespace tandem
