#include "engine/adapters/base_name.h"

#include <gmock/gmock.h>

namespace tandem {
namespace {

using ::testing::Contains;

TEST(BaseName, IsTheSameByTheLastPartOfThePath) {
  const std::vector<std::string> names = base_names_of("/models/Llama-2-7b-hf/", "");
  EXPECT_TRUE(is_base_name("meta-llama/Llama-2-7b-hf", names));
  EXPECT_TRUE(is_base_name("meta-llama/llama-2-7b-hf/", names));
  EXPECT_TRUE(is_base_name("/home/me/Llama-2-7b-hf", names));
  EXPECT_FALSE(is_base_name("meta-llama/Llama-2-13b-hf", names));
  EXPECT_FALSE(is_base_name("Llama-2-7b-hf/x", names));
}

TEST(BaseName, KnowsTheNameThatIsServedAndThatOfACache) {
  EXPECT_TRUE(is_base_name("org/base", base_names_of("/models/x", "base")));
  const std::string cache = "/c/hub/models--meta-llama--Llama-2-7b-hf/snapshots/0123abcd";
  EXPECT_THAT(base_names_of(cache, ""), Contains("Llama-2-7b-hf"));
  EXPECT_TRUE(is_base_name("meta-llama/Llama-2-7b-hf", base_names_of(cache, "")));
}

TEST(BaseName, IsNotJudgedWhereItIsUnknown) {
  EXPECT_TRUE(is_base_name("", {"a"}));
  EXPECT_TRUE(is_base_name("b", {}));
  EXPECT_FALSE(is_base_name("b", {"a"}));
}

TEST(BaseName, PrintsAStrangersTextOnOneLine) {
  EXPECT_EQ(printable("a\nb\xff"), "a?b?");
  EXPECT_EQ(printable(std::string(300, 'x')).size(), 100U);
}

}  // namespace
}  // namespace tandem
