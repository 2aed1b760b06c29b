// Constraints from untrusted clients are checked, and refused with the name of the field, before
// any of them is compiled.
#include "engine/constraint/check/constraint_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tandem {
namespace {

using ::testing::HasSubstr;
using Kind = TextConstraint::Kind;

std::string repeated(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

struct Refused {
  const char* name;
  Kind kind;
  std::string text;
  const char* reason;
};

class HostileConstraint : public ::testing::TestWithParam<Refused> {};

TEST_P(HostileConstraint, IsRefusedByName) {
  const Refused& refused = GetParam();
  const Status status = check_constraint({refused.kind, refused.text});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_THAT(status.message(), HasSubstr(refused.reason));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, HostileConstraint,
    ::testing::Values(
        Refused{"long", Kind::regex, std::string(70'000, 'a'), "more than the 64 KiB"},
        Refused{"empty", Kind::grammar, "", "empty"},
        Refused{"no_json", Kind::json_schema, "{\"type\":", "not JSON"},
        Refused{"no_schema", Kind::json_schema, "[1]", "no schema"},
        Refused{"deep_json", Kind::json_schema,
                repeated("{\"items\":", 70) + "{}" + repeated("}", 70), "64 deep"},
        Refused{"deep_text", Kind::json_schema, std::string(60'000, '['), "64 deep"},
        Refused{"many_values", Kind::json_schema, "{\"enum\":[" + repeated("1,", 6000) + "1]}",
                "5000 values"},
        Refused{"deep_groups", Kind::regex, repeated("(", 70) + "a" + repeated(")", 70), "70 deep"},
        Refused{"many_repeats", Kind::regex, repeated("a*", 101), "101 repetitions"},
        Refused{
            "many_repeats_in_a_schema", Kind::json_schema,
            R"({"properties":{"p":{"type":"string","pattern":")" + repeated("a?", 101) + R"("}}})",
            "#/properties/p/pattern"},
        Refused{"many_repeats_in_a_grammar", Kind::grammar, "root ::= " + repeated("\"a\"* ", 401),
                "401 repetitions"},
        Refused{"not", Kind::json_schema, R"({"not":{"type":"string"}})", "#/not is not supported"},
        Refused{"if_in_a_list", Kind::json_schema, R"({"anyOf":[{"if":{}}]})",
                "#/anyOf/if is not supported"},
        Refused{"unique", Kind::json_schema, R"({"items":{"uniqueItems":true}})",
                "#/items/uniqueItems is not supported"},
        Refused{"tag_of_no_object", Kind::structural_tag, "[]", "no object"},
        Refused{"schema_in_a_tag", Kind::structural_tag,
                R"({"format":{"elements":[{"json_schema":{"contains":{}}}]}})",
                "json_schema/contains is not supported"},
        Refused{"control_escape", Kind::regex, R"(a\cA)", "the pattern has '\\c'"},
        Refused{"control_escape_of_no_letter", Kind::regex, "\\c\xf4\x8f\xbf\xbf", "'\\c'"},
        Refused{"number_of_no_character", Kind::regex, R"(\UFFFFFFFF)", "no character"},
        Refused{"number_beyond_the_last", Kind::regex, R"(\u{110000})", "no character"},
        Refused{"escaped_control_character", Kind::regex,
                "[\\\x01"
                "b]",
                "needs none"},
        Refused{"group_of_odd_name", Kind::regex, "(?<\xf4\x8f\xbf\xbf>a)", "other characters"},
        Refused{"digits_in_a_grammar", Kind::grammar, R"(root ::= "\x4e00")", "write \\u004e"},
        Refused{"number_in_a_grammar", Kind::grammar, R"(root ::= [\UFFFFFFFF])", "no character"},
        Refused{"digit_in_a_grammar_behind_two", Kind::grammar, R"(root ::= "\x414")",
                R"('\x414': \x takes two digits)"},
        Refused{"type_of_no_kind", Kind::json_schema, R"({"items":{"type":"nonsense"}})",
                "#/items/type must be of null, boolean"},
        Refused{"negative_count", Kind::json_schema, R"({"maxItems":-1})",
                "#/maxItems must be an integer, 0 or more"},
        Refused{"count_of_no_number", Kind::json_schema, R"({"minLength":"2"})", "#/minLength"},
        Refused{"required_of_no_list", Kind::json_schema, R"({"required":true})", "#/required"},
        Refused{"integer_beyond_64_bits", Kind::json_schema, R"({"const":99999999999999999999})",
                "more than 64 bits"},
        Refused{"escape_in_a_schema", Kind::json_schema, R"({"pattern":"\\cA"})", "#/pattern"}),
    [](const auto& param) { return std::string(param.param.name); });

TEST(ConstraintCheck, TellsNamesOfPropertiesFromKeywords) {
  EXPECT_TRUE(check_constraint({Kind::json_schema,
                                R"({"properties":{"not":{"type":"string"},"if":{"type":"object"}},
                                    "required":["not"],"enum":[{"not":1}]})"})
                  .ok());
}

TEST(ConstraintCheck, LeavesCommentsOfGrammarsAlone) {
  EXPECT_TRUE(check_constraint({Kind::grammar, "# C:\\\n# \\x414\nroot ::= \"#\" # \\x414"}).ok());
  EXPECT_FALSE(check_constraint({Kind::grammar, "root ::= \"#\\x414\""}).ok());
}

TEST(ConstraintCheck, LeavesEscapesAloneThatAreReadAsTheyAreWritten) {
  for (const char* pattern :
       {R"(\x41g)", R"(\x414)", R"([\x41])", R"([\u00e9a])", R"([a\u00e9])", R"([\u00e9-\u00fc])",
        R"(\u00e9a)", R"([\nb]\d[\w\]a])", R"(\u{10FFFF}(?<word>\U0001F600)(?:a))", R"([\u4e00a])",
        R"([\u{4e00}a])"}) {
    const Status status = check_constraint({Kind::regex, pattern});
    EXPECT_TRUE(status.ok()) << pattern << ": " << status.message();
  }
}

TEST(ConstraintCheck, CountsNoRepeatsInClassesAndLiterals) {
  EXPECT_TRUE(check_constraint({Kind::regex, "[" + repeated("*+?{", 50) + "]"}).ok());
  EXPECT_TRUE(check_constraint({Kind::regex, repeated("\\*", 200)}).ok());
  EXPECT_TRUE(check_constraint({Kind::grammar, "root ::= \"" + repeated("*", 500) + "\""}).ok());
}

// Makes {"anyOf": [...]} of so many strings of different lengths.
TextConstraint strings_of_lengths(int count) {
  std::string schema = R"({"anyOf":[)";
  for (int i = 1; i <= count; ++i) {
    schema += fmt::format(R"({}{{"type":"string","maxLength":{}}})", i > 1 ? "," : "", i);
  }
  return {Kind::json_schema, schema + "]}"};
}

TEST(ConstraintCheck, RefusesSchemasOfMoreDifferentLengthsThanCanBeCompiled) {
  EXPECT_TRUE(check_constraint(strings_of_lengths(40)).ok());
  const Status many = check_constraint(strings_of_lengths(900));
  EXPECT_EQ(many.code(), StatusCode::invalid_argument);
  EXPECT_THAT(many.message(), HasSubstr("maxLength"));
  const TextConstraint tag{
      Kind::structural_tag,
      R"({"type":"structural_tag","format":{"type":"json_schema","json_schema":)" +
          strings_of_lengths(900).text + "}}"};
  EXPECT_FALSE(check_constraint(tag).ok());
}

TEST(ConstraintCheck, CountsEqualLengthsOnceAndNoPropertyOfThatName) {
  std::string schema = R"({"properties":{"maxLength":{"type":"string"})";
  for (int i = 0; i < 900; ++i) schema += fmt::format(R"(,"p{}":{{"maxLength":1e300}})", i);
  EXPECT_TRUE(check_constraint({Kind::json_schema, schema + "}}"}).ok());
}

}  // namespace
}  // namespace tandem
