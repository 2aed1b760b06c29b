// Regular expressions: the texts they match, refused patterns, and the lengths of their texts.
#include "engine/constraint/schema/pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tandem {
namespace {

using ::testing::HasSubstr;
using Texts = std::vector<std::string>;

TextExpression parsed(const std::string& pattern) {
  return parse_pattern("the pattern", pattern).value();
}
bool matches(const std::string& pattern, const std::string& text) {
  return is_text_of(texts_matched("the pattern", parsed(pattern)).value(), code_points(text));
}
bool finds(const std::string& pattern, const std::string& text) {
  return is_text_of(texts_searched("the pattern", parsed(pattern)).value(), code_points(text));
}

TEST(Pattern, MatchesWhatEcmaAndPythonBothMatch) {
  const struct {
    const char* pattern;
    Texts yes, no;
  } cases[] = {{"a.c", {"abc", "a\u00e9c"}, {"a\nc", "a\rc", "a\u2028c", "ac"}},
               {"x{2}y", {"xxy"}, {"xy", "xxxy"}},
               {"x{,y", {"x{,y"}, {}},
               {"(ab|cd)+?[0-9]{2,}", {"ab12", "abcd123"}, {"12", "ab1"}},
               {"(?:a)(?<n_1>b)(?P<m>c)", {"abc"}, {}},
               {R"(\d\D\w\W)", {"1a_ "}, {"1a_\u00e9", "aa_ ", "\u0661a_ "}},
               {R"(\s\S)", {" x", "\u00a0\u00e9"}, {"x ", " \u3000", "\u3000x"}},
               {R"([^\s\W]+)", {"ab_1"}, {"a b", "\u00e9", "a-"}},
               {R"([\w.-]+[\]\-])", {"a.-]", "x-"}, {"]", "a]]"}},
               {R"(\x41\u00e9\u{1F600}\U0001F600\ud83d\ude00\0)",
                {std::string("A\u00e9\U0001F600\U0001F600\U0001F600") + '\0'},
                {}},
               {R"([\u00e9a]\x414)", {"aA4", "\u00e9A4"}, {"AA"}},
               {"^(a|b)$", {"a", "b"}, {"c"}},
               {"a||b", {"a", "", "b"}, {"ab"}},
               {"(a*)*", {"", "aaa"}, {"b"}},
               {"[a-z-]", {"-", "q"}, {"A"}}};
  for (const auto& [pattern, yes, no] : cases) {
    for (const std::string& text : yes) EXPECT_TRUE(matches(pattern, text)) << pattern << text;
    for (const std::string& text : no) EXPECT_FALSE(matches(pattern, text)) << pattern << text;
  }
}

TEST(Pattern, IsSearchedUnlessItIsHeldToAnEnd) {
  EXPECT_TRUE(finds("\\S", "hello world"));
  EXPECT_FALSE(finds("\\S", " "));
  EXPECT_TRUE(finds("^https?://", "https://example.org"));
  EXPECT_FALSE(finds("^https?://", " https://"));
  EXPECT_TRUE(finds("(^a|b)c", "ac"));
  EXPECT_FALSE(finds("(^a|b)c", "xac"));
  EXPECT_TRUE(finds("(^a|b)c", "xbcx"));
  EXPECT_TRUE(finds("^$|^x$", ""));
  EXPECT_TRUE(finds("", "anything"));
}

TEST(Pattern, IsRefusedByNameOfWhatAGrammarCannotFollow) {
  for (const auto& [pattern, reason] : std::vector<std::pair<const char*, const char*>>{
           {"(?=a)", "looking around"},
           {"a(?<!b)", "looking around"},
           {R"((a)\1)", R"(has '\1')"},
           {R"(\bword)", R"(has '\b')"},
           {R"(\p{L})", R"(has '\p')"},
           {"(?i)a", "flags"},
           {R"(a\cA)", R"(has '\c')"},
           {R"(\UFFFFFFFF)", "no character"},
           {R"(\u{110000})", "no character"},
           {R"(\ud800x)", "no character"},
           {R"(\u12)", "not whole"},
           {"(a", "nothing closes"},
           {"a)", "too many"},
           {"[a", "nothing closes"},
           {"[]a]", "empty class"},
           {"[z-a]", "backwards"},
           {"*a", "repeats nothing"},
           {"a**", "one repetition behind another"},
           {"a{2}{3}", "one repetition behind another"},
           {"a{3,2}", "the most is less"},
           {"a{,3}", "write {0,"},
           {"a\\", "ends with"}}) {
    const auto result = parse_pattern("the pattern", pattern);
    ASSERT_FALSE(result.ok()) << pattern;
    EXPECT_THAT(result.status().message(), HasSubstr(reason)) << pattern;
  }
  for (const char* pattern : {"a^b", "a$b", "(^a)+", "a*^"}) {
    EXPECT_FALSE(texts_searched("the pattern", parsed(pattern)).ok()) << pattern;
  }
  EXPECT_FALSE(parse_pattern("the pattern", std::string(200, '(')).ok());
}

TEST(Pattern, KnowsTheLengthsOfItsTextsAndKeepsThoseWithinBounds) {
  const Lengths lengths = lengths_of(parsed("a(bc|d){2,3}e?"));
  EXPECT_EQ(lengths.least, 3);
  EXPECT_EQ(lengths.most, 8);
  EXPECT_EQ(lengths_of(parsed("ab*")).most, -1);
  const auto limited = with_lengths(parsed("[a-z]*(1|22)x*"), {2, 4});
  ASSERT_TRUE(limited);
  for (const char* text : {"1x", "a1", "ab22", "22xx", "abc1"}) {
    EXPECT_TRUE(is_text_of(*limited, code_points(text))) << text;
  }
  for (const char* text : {"1", "abc22", "22xxx", "ab"}) {
    EXPECT_FALSE(is_text_of(*limited, code_points(text))) << text;
  }
  EXPECT_FALSE(with_lengths(parsed("(ab|c)*"), {0, 9}));
}

}  // namespace
}  // namespace tandem
