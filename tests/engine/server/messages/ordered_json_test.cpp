#include "engine/server/messages/ordered_json.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>

#include "tests/support/test_seed.h"

namespace tandem {
namespace {

std::string reprinted(const std::string& text) {
  const auto parsed = parse_in_order(text);
  return parsed ? parsed->dump() : "nothing";
}

TEST(OrderedJson, KeepsTheOrderOfMembers) {
  for (const char* text : {R"({"z":1,"a":{"y":[{"b":null,"a":[]}],"x":{}}})", "[]", "{}", "1",
                           "null", R"("x")", R"([[],[[1.5,true,false,"é"]]])"}) {
    EXPECT_EQ(reprinted(text), text);
  }
}

TEST(OrderedJson, TakesTheLastOfMembersWithOneName) {
  EXPECT_EQ(reprinted(R"({"b": 1, "a": 2, "b": [3]})"), R"({"b":[3],"a":2})");
}

TEST(OrderedJson, RefusesWhatIsNoJson) {
  for (const char* text : {"", "{", "[1,]", "{\"a\"}", "nul", "1 2", "1e999"}) {
    EXPECT_EQ(reprinted(text), "nothing") << text;
  }
  EXPECT_EQ(reprinted(std::string(1000, '[') + std::string(1000, ']')), "nothing");
  std::string many = "[0";
  while (many.size() < 1U << 20) many += R"(,{"":{}})";
  EXPECT_EQ(reprinted(many + "]"), "nothing");
}

TEST(OrderedJson, PassesOverMembersThatAreNotNamed) {
  constexpr std::array<std::string_view, 2> kNames = {"wanted", "too"};
  EXPECT_EQ(parse_members_in_order(
                R"({"x": {"wanted": 1, "y": [{"too": 2}]}, "too": {"x": 1, "b": []}, "l": [],
                    "wanted": [{"wanted": 3}], "end": "e"})",
                kNames)
                .dump(),
            R"({"too":{"x":1,"b":[]},"wanted":[{"wanted":3}]})");
}

// 50,000 members: searching each among the earlier ones would take seconds.
TEST(OrderedJson, ReadsManyMembersInLinearTime) {
  std::string text = "{";
  for (int i = 0; i < 50'000; ++i) text += '"' + std::to_string(i) + "\":0,";
  text.back() = '}';
  const auto parsed = parse_in_order(text);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->size(), 50'000U);
}

// Property: any text gives the same values as with nlohmann's own parser.
TEST(OrderedJson, ReadsWhatTheOtherParserReads) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const std::string good =
      R"({"a":[1,{"b":-2.5e3,"c":[null,true]}],"d":{"e":{},"f":"g\u00e9"},"a":0})";
  for (int round = 0; round < 20'000; ++round) {
    std::string text = good;
    for (unsigned n = random() % 3; n > 0; --n)
      text[random() % text.size()] = "{}[]:,\"0a"[random() % 9];
    const auto other = nlohmann::json::parse(text, nullptr, false);
    const auto ours = parse_in_order(text);
    ASSERT_EQ(ours.has_value(), !other.is_discarded()) << text;
    if (ours) {
      ASSERT_EQ(nlohmann::json(*ours), other) << text;
    }
  }
}

}  // namespace
}  // namespace tandem
