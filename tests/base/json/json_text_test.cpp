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

std::string list_of(const std::string& value, int count) {
  std::string list = "[0";
  for (int i = 0; i < count; ++i) list += "," + value;
  return list + "]";
}

TEST(JsonText, TellsWhatATreeOfManyValuesTakes) {
  constexpr int kCount = 100'000;
  // The minimum bytes of each value: its place; plus a node and an object; plus a node of a map in
  // an object.
  const std::pair<std::string, std::size_t> cases[] = {{"0", 16}, {"{}", 64}, {R"({"":{}})", 224}};
  for (const auto& [value, least] : cases) {
    const std::size_t bytes = json_tree_bytes(list_of(value, kCount));
    EXPECT_GE(bytes, kCount * least) << value;
    EXPECT_LE(bytes, kCount * least * 2 + 1024) << value;
  }
}

TEST(JsonText, TakesNoCharacterOfAStringForAValue) {
  EXPECT_EQ(json_tree_bytes(R"(["[[,,::{{\",,"])"), json_tree_bytes(R"([""])"));
}

TEST(JsonText, LeavesRoomForALongPromptAsTokens) {
  EXPECT_LT(json_tree_bytes(list_of("123456", 1 << 20)), kMaxJsonTreeBytes);
}

}  // namespace
}  // namespace tandem
