#include "base/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tandem {
namespace {

TEST(Dtype, EveryHalfSurvivesTheWayThroughFloat) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const f16 half{static_cast<std::uint16_t>(bits)};
    const float value = to_float(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(to_float(from_float<f16>(value))));
    } else {
      ASSERT_EQ(from_float<f16>(value).bits, half.bits) << value;
    }
  }
}

TEST(Dtype, EveryBf16SurvivesTheWayThroughFloat) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const bf16 brain{static_cast<std::uint16_t>(bits)};
    const float value = to_float(brain);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(to_float(from_float<bf16>(value))));
    } else {
      ASSERT_EQ(from_float<bf16>(value).bits, brain.bits) << value;
    }
  }
}

TEST(Dtype, RoundsToNearestEven) {
  EXPECT_EQ(to_float(from_float<bf16>(1.0F + 1.0F / 256)), 1.0F);               // tie, even below
  EXPECT_EQ(to_float(from_float<bf16>(1.0F + 3.0F / 256)), 1.0F + 4.0F / 256);  // tie, even above
  EXPECT_EQ(to_float(from_float<f16>(1.0F + 1.0F / 2048)), 1.0F);
  EXPECT_EQ(to_float(from_float<f16>(1.0F + 3.0F / 2048)), 1.0F + 4.0F / 2048);
  EXPECT_EQ(to_float(from_float<f16>(65519.0F)), 65504.0F);
  EXPECT_EQ(to_float(from_float<f16>(65520.0F)), std::numeric_limits<float>::infinity());
  EXPECT_EQ(to_float(from_float<f16>(0x1p-25F)), 0.0F);  // tie with zero, which is even
}

TEST(Dtype, ConvertsBetweenAllPairs) {
  const std::vector<float> source = {0.0F, -1.5F, 3.25F, 1024.0F, -0.0078125F};
  for (const DType from : {DType::f32, DType::f16, DType::bf16}) {
    for (const DType to : {DType::f32, DType::f16, DType::bf16}) {
      std::vector<std::byte> a(source.size() * 4);
      std::vector<std::byte> b(source.size() * 4);
      std::vector<float> back(source.size());
      convert(DType::f32, source.data(), from, a.data(), source.size());
      convert(from, a.data(), to, b.data(), source.size());
      convert(to, b.data(), DType::f32, back.data(), source.size());
      EXPECT_EQ(back, source) << to_string(from) << " to " << to_string(to);
    }
  }
}

TEST(Dtype, ReadsTheSpellingsInTheWild) {
  for (const char* text : {"bf16", "BF16", "bfloat16", "torch.bfloat16"}) {
    EXPECT_EQ(parse_dtype(text).value(), DType::bf16);
  }
  EXPECT_EQ(parse_dtype("float32").value(), DType::f32);
  EXPECT_EQ(parse_dtype("torch.float16").value(), DType::f16);
  EXPECT_FALSE(parse_dtype("int8"));
}

}  // namespace
}  // namespace tandem
