// Schemas are followed exactly: the texts that their grammars accept and reject, and refused
// schemas.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/constraint/check/constraint_check.h"
#include "engine/constraint/grammar_backend.h"
#include "tests/engine/constraint/takes_text.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using Kind = TextConstraint::Kind;
using Texts = std::vector<std::string>;

struct Case {
  const char* name;
  const char* schema;
  Texts valid;
  Texts invalid;
};

class SchemaTakes : public ::testing::TestWithParam<Case> {};

TEST_P(SchemaTakes, WhatIsValidAndNothingElse) {
  const Case& each = GetParam();
  const TextConstraint constraint{Kind::json_schema, each.schema};
  ASSERT_TRUE(check_constraint(constraint).ok()) << check_constraint(constraint).message();
  const auto compiled = test::compiled(constraint);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  for (const std::string& text : each.valid) {
    EXPECT_TRUE(test::takes_text(**compiled, text)) << each.schema << " takes " << text;
  }
  for (const std::string& text : each.invalid) {
    EXPECT_FALSE(test::takes_text(**compiled, text)) << each.schema << " does not take " << text;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Objects, SchemaTakes,
    ::testing::Values(
        Case{"required_beyond_properties",
             R"({"type":"object","properties":{"a":{"type":"null"}},"required":["a","z"]})",
             {R"({"a": null, "z": [1]})"},
             {R"({"a": null})", R"({"z": 1})"}},
        Case{"optional_ones_in_their_order",
             R"({"type":"object","properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3}},
                 "required":["c"]})",
             {R"({"c":3})", R"({"a":1,"c":3})", R"({"b":2, "c":3})", R"({"a":1,"b":2,"c":3})"},
             {"{}", R"({"a":1})", R"({"c":3,"a":1})", R"({"a":1,"c":3,})", R"({"c":3,"d":1})"}},
        Case{
            "a_required_one_behind_optional_ones",
            R"({"properties":{"a":{"const":1},"b":{"const":2}},"required":["b"],"maxProperties":1})",
            {R"({"b":2})"},
            {"{}", R"({"a":1})", R"({"a":1,"b":2})"}},
        Case{"no_others_unless_it_says_so", R"({"properties":{}})", {"{}"}, {R"({"a":1})"}},
        Case{"any_where_none_are_named",
             R"({"type":"object"})",
             {"{}", R"({"a": {"b": []}})"},
             {"[]"}},
        Case{"others_are_not_the_named_ones",
             R"({"properties":{"ab":{"const":1}},"additionalProperties":{"const":2}})",
             {R"({"ab":1})", R"({"ab":1,"abc":2})", R"({"a":2})", R"({"":2})", R"({"x\u0041":2})"},
             {R"({"ab":2})", R"({"ab":1,"ab":2})", R"({"\u0061b":2})", R"({"a":1})"}},
        Case{"names_by_a_pattern",
             R"({"type":"object","patternProperties":{"^x_[a-z]+$":{"type":"integer"}}})",
             {"{}", R"({"x_a":1, "x_bc":2})"},
             {R"({"a":1})", R"({"x_a":"1"})"}},
        Case{"names_by_a_schema",
             R"({"propertyNames":{"enum":["a","b"]},"additionalProperties":{"type":"boolean"}})",
             {"{}", R"({"b":true,"a":false})"},
             {R"({"c":true})"}},
        Case{"so_many_properties",
             R"({"properties":{"a":{"const":1},"b":{"const":1},"c":{"const":1}},
                 "minProperties":1,"maxProperties":2})",
             {R"({"a":1})", R"({"c":1})", R"({"a":1,"c":1})"},
             {"{}", R"({"a":1,"b":1,"c":1})"}},
        Case{"at_least_one_of_any_name",
             R"({"additionalProperties":{"const":1},"minProperties":1,"maxProperties":2})",
             {R"({"a":1})", R"({"a":1,"b":1})"},
             {"{}", R"({"a":1,"b":1,"c":1})"}},
        Case{"one_that_cannot_be_is_left_out",
             R"({"properties":{"a":false,"b":{"const":1}},"required":["b"]})",
             {R"({"b":1})"},
             {R"({"a":1,"b":1})"}},
        Case{
            "a_list_of_its_own_kind",
            R"({"$ref":"#/$defs/n","$defs":{"n":{"properties":{"next":{"anyOf":[{"$ref":"#/$defs/n"},
                 {"type":"null"}]}},"required":["next"]}}})",
            {R"({"next": {"next": null}})"},
            {R"({"next": {}})"}}),
    [](const auto& param) { return std::string(param.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Together, SchemaTakes,
    ::testing::Values(
        Case{
            "beside_a_reference",
            R"({"$ref":"#/$defs/q","maximum":1,"$defs":{"q":{"type":"integer","minimum":0,"maximum":9}}})",
            {"0", "1"},
            {"2", "-1"}},
        Case{"enum_and_type",
             R"({"type":"integer","enum":[1,"x",2.5,3.0]})",
             {"1", "3.0"},
             {"\"x\"", "2.5"}},
        Case{"enum_and_bounds", R"({"enum":[1,2,30,"a"],"maximum":5})", {"1", "\"a\""}, {"30"}},
        Case{"enum_and_pattern",
             R"({"enum":["ab","cd",1],"pattern":"^a"})",
             {"\"ab\"", "1"},
             {"\"cd\""}},
        Case{"const_of_a_structure",
             R"({"const":{"a":[1,"x\n"]}})",
             {R"({"a": [1, "x\n"]})"},
             {R"({"a":[1]})"}},
        Case{"type_beside_any_of",
             R"({"type":"null","anyOf":[{"type":"string"},{"type":"null"}]})",
             {"null"},
             {"\"a\""}},
        Case{"all_of",
             R"({"allOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]},
                          {"properties":{"b":{"type":"null"},"a":{"minimum":3,"maximum":4}}}]})",
             {R"({"a":3})", R"({"a":4,"b":null})"},
             {R"({"a":5})", R"({"b":null})"}},
        Case{"one_of_by_a_tag_that_is_not_required",
             R"({"oneOf":[{"$ref":"#/$defs/A"},{"$ref":"#/$defs/B"}],"$defs":{
                 "A":{"type":"object","properties":{"k":{"const":"a","default":"a"},"x":{"const":1}}},
                 "B":{"type":"object","properties":{"k":{"const":"b","default":"b"},"x":{"const":1}}}}})",
             {R"({"k":"a","x":1})", R"({"k":"b"})"},
             {R"({"x":1})", "{}", R"({"k":"c"})"}},
        Case{"one_of_by_what_is_required",
             R"({"oneOf":[{"properties":{"a":{"const":1}},"required":["a"]},
                          {"properties":{"b":{"const":1}},"required":["b"]}]})",
             {R"({"a":1})", R"({"b":1})"},
             {R"({"a":1,"b":1})", "{}"}},
        Case{
            "one_of_by_kinds",
            R"({"oneOf":[{"type":"boolean"},{"type":"integer","minimum":0,"maximum":5},{"type":"null"}]})",
            {"true", "5", "null"},
            {"6"}},
        Case{"names_with_slash_and_tilde",
             R"({"$ref":"#/$defs/x~1y~0z","$defs":{"x/y~z":{"type":"boolean"}}})",
             {"true"},
             {"1"}},
        Case{"keywords_without_a_type",
             R"({"minimum":3,"maximum":5})",
             {"3", "4.5"},
             {"6", "\"a\""}},
        Case{"types_in_a_list",
             R"({"type":["string","null"],"maxLength":2})",
             {"null", "\"ab\""},
             {"\"abc\"", "1"}}),
    [](const auto& param) { return std::string(param.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Strings, SchemaTakes,
    ::testing::Values(
        Case{"raw_control_characters_beside_a_length",
             R"({"type":"string","maxLength":3})",
             {R"("a\u0015b")", R"("\n\t\"")", "\"\u00e9\U0001F600x\"", R"("\ud83d\ude00ab")"},
             {"\"a\x15\"", "\"\n\"", R"("abcd")", R"("\ud83d")", R"("\ude00")",
              R"("\ud83d\u0041")"}},
        Case{"halves_of_pairs",
             R"({"type":"string"})",
             {R"("\ud83d\ude00")", R"("\uD7ff")"},
             {R"("\ud800")"}},
        Case{"a_pattern_is_searched",
             R"({"type":"string","pattern":"[0-9]$"})",
             {"\"x 1\"", "\"1\""},
             {"\"1x\""}},
        Case{"a_pattern_of_escaped_characters",
             R"({"type":"string","pattern":"^[A-Z]:\\\\[a-c]{2}\"$"})",
             {R"("D:\\bc\"")"},
             {R"("D:\bc\"")", R"("D:\\bc"")"}},
        Case{"a_pattern_with_line_ends",
             R"({"type":"string","pattern":"^a\nb.$"})",
             {R"("a\nbc")"},
             {"\"a\nbc\"", R"("a\nb\n")"}},
        Case{"a_pattern_of_alternatives_at_its_ends",
             R"({"type":"string","pattern":"^a|b$"})",
             {"\"ax\"", "\"xb\""},
             {"\"xax\""}},
        Case{"pattern_and_lengths",
             R"({"type":"string","pattern":"^[a-z][a-z0-9]*$","minLength":2,"maxLength":3})",
             {"\"ab\"", "\"a12\""},
             {"\"a\"", "\"a123\""}},
        Case{"searched_pattern_and_lengths",
             R"({"type":"string","pattern":"[0-9]","maxLength":3})",
             {"\"1\"", "\"ab1\"", "\"1ab\""},
             {"\"ab\"", "\"abc1\""}},
        Case{"a_date", R"({"format":"date"})", {"\"2026-11-28\""}, {"\"2026-02-30\"", "\"x\""}},
        Case{"a_format_that_says_nothing",
             R"({"type":"string","format":"password"})",
             {"\"x\""},
             {"1"}}),
    [](const auto& param) { return std::string(param.param.name); });

INSTANTIATE_TEST_SUITE_P(
    NumbersAndLists, SchemaTakes,
    ::testing::Values(
        Case{"numbers_as_they_are_written",
             R"({"enum":[19.99,0.1,1e22,-7]})",
             {"19.99", "0.1", "-7"},
             {"19.989999999999998"}},
        Case{"integers_between",
             R"({"type":"integer","minimum":-12,"maximum":105})",
             {"-12", "-1", "0", "99", "100", "105"},
             {"-13", "106", "00", "-0", "1.0", "1e1"}},
        Case{"integers_from_on",
             R"({"type":"integer","exclusiveMinimum":98})",
             {"99", "100", "1000000000000"},
             {"98", "9", "-99"}},
        Case{"numbers_between",
             R"({"type":"number","minimum":-1.25,"exclusiveMaximum":3.5})",
             {"-1.25", "-1.2", "-0.5", "0", "3.49", "3", "2.75"},
             {"-1.26", "-2", "3.5", "3.51", "4"}},
        Case{"numbers_above",
             R"({"type":"number","exclusiveMinimum":0})",
             {"0.1", "0.01", "1", "25.5"},
             {"0", "0.0", "-1"}},
        Case{"multiples_between",
             R"({"type":"integer","multipleOf":5,"minimum":1,"maximum":20})",
             {"5", "20"},
             {"0", "7", "25"}},
        Case{"multiples_from_zero",
             R"({"type":"integer","multipleOf":15,"minimum":0})",
             {"0", "15", "450"},
             {"-15", "10"}},
        Case{"any_items", R"({"type":"array","maxItems":2})", {"[]", "[1, {}]"}, {"[1,2,3]"}},
        Case{"no_items", R"({"maxItems":0})", {"[]"}, {"[1]"}},
        Case{"so_many_items",
             R"({"items":{"const":1},"minItems":2,"maxItems":3})",
             {"[1,1]", "[1, 1, 1]"},
             {"[1]", "[1,1,1,1]", "[]"}},
        Case{"first_items",
             R"({"prefixItems":[{"const":1},{"const":2}],"items":{"const":3},"minItems":1})",
             {"[1]", "[1,2]", "[1,2,3,3]"},
             {"[]", "[2]", "[1,3]"}},
        Case{"first_items_and_no_more",
             R"({"prefixItems":[{"const":1}]})",
             {"[]", "[1]"},
             {"[1,1]"}},
        Case{"first_items_as_they_were_written",
             R"({"items":[{"const":1}],"additionalItems":{"const":2}})",
             {"[1,2]"},
             {"[1,1]"}}),
    [](const auto& param) { return std::string(param.param.name); });

struct Refused {
  const char* name;
  const char* schema;
  const char* reason;
};

class SchemaRefused : public ::testing::TestWithParam<Refused> {};

TEST_P(SchemaRefused, ByNameOfWhatCannotBeEnforced) {
  const auto compiled = test::compiled({Kind::json_schema, GetParam().schema});
  ASSERT_FALSE(compiled.ok());
  EXPECT_EQ(compiled.status().code(), StatusCode::invalid_argument);
  EXPECT_THAT(compiled.status().message(), HasSubstr(GetParam().reason));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, SchemaRefused,
    ::testing::Values(
        Refused{"two_patterns", R"({"allOf":[{"pattern":"a"},{"pattern":"b"}]})",
                "more than one 'pattern'"},
        Refused{"format_and_pattern", R"({"format":"date","pattern":"^2026-"})", "more than one"},
        Refused{"one_of_that_may_both_be", R"({"oneOf":[{"type":"integer"},{"type":"number"}]})",
                "'oneOf' has alternatives"},
        Refused{
            "one_of_of_objects",
            R"({"oneOf":[{"properties":{"a":{}},"additionalProperties":true},{"properties":{"b":{}},"additionalProperties":true}]})",
            "'oneOf' has alternatives"},
        Refused{"negative_length", R"({"maxLength":-1})",
                "#/maxLength must be an integer, 0 or more"},
        Refused{"nothing", "false", "no text at all"},
        Refused{"longer_than_any_answer", R"({"type":"string","minLength":1e300})",
                "no text at all"},
        Refused{"contradiction", R"({"type":"string","enum":[1]})", "no text at all"},
        Refused{"itself", R"({"$ref":"#"})", "no text at all"},
        Refused{"on_and_on", R"({"properties":{"a":{"$ref":"#"}},"required":["a"]})",
                "no text at all"},
        Refused{"reference_to_nothing", R"({"$ref":"#/$defs/a"})", "leads to nothing"},
        Refused{"reference_to_elsewhere", R"({"$ref":"http://example.com/x"})", "URI"},
        Refused{"many_multiples",
                R"({"type":"integer","multipleOf":3,"minimum":1,"maximum":90000})", "multipleOf 3"},
        Refused{"lookahead", R"x({"pattern":"a(?=b)"})x", "looking around"},
        Refused{
            "many_alternatives",
            R"({"allOf":[{"$ref":"#/$defs/x"},{"$ref":"#/$defs/y"},{"$ref":"#/$defs/z"},{"$ref":"#/$defs/w"}],"$defs":{
                    "x":{"anyOf":[{"minLength":1},{"minLength":2},{"minLength":3},{"minLength":4},{"minLength":5},{"minLength":6},{"minLength":7},{"minLength":8},{"minLength":9}]},
                    "y":{"anyOf":[{"minLength":1},{"minLength":2},{"minLength":3},{"minLength":4},{"minLength":5},{"minLength":6},{"minLength":7},{"minLength":8},{"minLength":9}]},
                    "z":{"anyOf":[{"minLength":1},{"minLength":2},{"minLength":3},{"minLength":4},{"minLength":5},{"minLength":6},{"minLength":7},{"minLength":8},{"minLength":9}]},
                    "w":{"anyOf":[{"minLength":1},{"minLength":2},{"minLength":3},{"minLength":4},{"minLength":5},{"minLength":6},{"minLength":7},{"minLength":8},{"minLength":9}]}}})",
            "more than 5000 alternatives"}),
    [](const auto& param) { return std::string(param.param.name); });

// Each optional property changes how many may follow, so the number of states is quadratic.
TEST(SchemaGrammar, IsRefusedBeforeItsRulesTakeMuchMemory) {
  std::string schema = R"({"maxProperties":500,"properties":{"p":{})";
  for (int i = 0; i < 1000; ++i) schema += ",\"p" + std::to_string(i) + "\":{}";
  const auto compiled = test::compiled({Kind::json_schema, schema + "}}"});
  ASSERT_FALSE(compiled.ok());
  EXPECT_THAT(compiled.status().message(), HasSubstr("more than 20000 rules"));
}

TEST(SchemaGrammar, LeavesOutWhatItCannotEnforceOfAToolThatIsNotStrict) {
  const auto tag = [](const char* schema, bool best_effort) {
    return TextConstraint{
        Kind::structural_tag,
        std::string(R"({"type":"structural_tag","format":{"type":"json_schema","json_schema":)") +
            schema + R"(,"best_effort":)" + (best_effort ? "true" : "false") + "}}"};
  };
  const char* schema =
      R"({"type":"object","properties":{"a":{"type":"array","items":{"const":1},"uniqueItems":true},
          "b":{"type":"string","maxLength":-1},"c":{"oneOf":[{"type":"integer"},{"type":"number"}]}},
          "required":["a","b"],"if":{}})";
  EXPECT_THAT(check_constraint(tag(schema, false)).message(), HasSubstr("uniqueItems"));
  EXPECT_FALSE(test::compiled(tag(schema, false)).ok());
  ASSERT_TRUE(check_constraint(tag(schema, true)).ok());
  const auto compiled = test::compiled(tag(schema, true));
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  EXPECT_TRUE(test::takes_text(**compiled, R"({"a":[1,1],"b":"x","c":0.5})"));
  EXPECT_FALSE(test::takes_text(**compiled, R"({"a":[2],"b":"x"})"));
  EXPECT_FALSE(test::takes_text(**compiled, R"({"a":[1]})"));
}

}  // namespace
}  // namespace tandem
