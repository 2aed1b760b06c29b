#include "base/text/base64.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>

#include "tests/support/test_seed.h"

namespace tandem {
namespace {

TEST(Base64, IsThatOfTheRfc) {
  // Test vectors of RFC 4648, section 10.
  const std::pair<const char*, const char*> cases[] = {{"", ""},
                                                       {"f", "Zg=="},
                                                       {"fo", "Zm8="},
                                                       {"foo", "Zm9v"},
                                                       {"foob", "Zm9vYg=="},
                                                       {"fooba", "Zm9vYmE="},
                                                       {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : cases) {
    EXPECT_EQ(to_base64(bytes), text);
    const auto back = from_base64(text);
    ASSERT_TRUE(back.ok()) << text;
    EXPECT_EQ(*back, bytes);
  }
  for (const char* const text : {"Zg=", "Z", "Zm9v!", "Zm9vY", "Zm\n9v==="}) {
    EXPECT_FALSE(from_base64(text).ok()) << text;
  }
}

TEST(Base64, KeepsAnyBytes) {
  std::mt19937_64 random(test_seed());
  for (int i = 0; i < 200; ++i) {
    std::string bytes(random() % 100, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    const auto back = from_base64(to_base64(bytes));
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(*back, bytes);
  }
}

}  // namespace
}  // namespace tandem
