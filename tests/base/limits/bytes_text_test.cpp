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

}  // namespace
}  // namespace tandem
