#include "base/limits/bytes_text.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(BytesText, NamesSizesInPowersOfTen) {
  EXPECT_EQ(bytes_text(12), "12 B");
  EXPECT_EQ(bytes_text(1500), "1.5 kB");
  EXPECT_EQ(bytes_text(2.5e9), "2.5 GB");
  EXPECT_EQ(bytes_text(999.7e6), "1.0 GB");
  EXPECT_EQ(bytes_text(3e12), "3.0 TB");
}

TEST(SizeText, HasBinaryUnitsWhereTheNumberIsWhole) {
  EXPECT_EQ(size_text(0), "0 B");
  EXPECT_EQ(size_text(4096), "4 KiB");
  EXPECT_EQ(size_text(64 << 20), "64 MiB");
  EXPECT_EQ(size_text(1536 << 20), "1536 MiB");
  EXPECT_EQ(size_text(std::uint64_t{2} << 30), "2 GiB");
  EXPECT_EQ(size_text(2'500'000'000), "2.5 GB");
}

}  // namespace
}  // namespace tandem
