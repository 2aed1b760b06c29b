#include "base/json/json_text.h"

#include <gtest/gtest.h>

#include <string>

namespace tandem {
namespace {

TEST(JsonText, CountsListsAndObjectsAlike) {
  EXPECT_FALSE(nests_deeper_than("", 0));
  EXPECT_FALSE(nests_deeper_than("1", 0));
  EXPECT_TRUE(nests_deeper_than("{}", 0));
  EXPECT_FALSE(nests_deeper_than(R"({"a":[{"b":1}],"c":[[2]]})", 3));
  EXPECT_TRUE(nests_deeper_than(R"({"a":[{"b":1}],"c":[[2]]})", 2));
  EXPECT_FALSE(nests_deeper_than("[[],[],[],{}]", 2));
}

TEST(JsonText, ReadsNoBracketInsideAString) {
  EXPECT_FALSE(nests_deeper_than(R"(["[[[{{{"])", 1));
  EXPECT_FALSE(nests_deeper_than(R"(["\"[[[\\"])", 1));
  EXPECT_TRUE(nests_deeper_than(R"(["\\",[1]])", 1));
}

TEST(JsonText, IsNotMisledByClosingBracketsThatOpenNothing) {
  EXPECT_TRUE(nests_deeper_than(std::string(100, ']') + std::string(65, '['), 64));
}

}  // namespace
}  // namespace tandem
