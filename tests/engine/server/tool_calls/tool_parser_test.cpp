#include "engine/server/tool_calls/tool_parser.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/engine/server/tool_calls/tool_text.h"
#include "tests/support/test_seed.h"

namespace tandem {
namespace {

const ToolParserOptions kLlama3{ToolFormat::llama3, false, {"<|python_tag|>"}};
const ToolParserOptions kHermes{ToolFormat::hermes, false, {}};
const ToolParserOptions kMistral{
    ToolFormat::mistral, false, {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"}};
const ToolParserOptions kEnforcedMistral{ToolFormat::mistral, true, kMistral.hidden};
const ToolParserOptions kJson{ToolFormat::json, true, {}};

struct Case {
  const char* name;
  ToolParserOptions options;
  std::string text;
  ParsedAnswer answer;
};

void PrintTo(const Case& each, std::ostream* out) {
  *out << each.text;
}

class ToolTexts : public testing::TestWithParam<Case> {};

TEST_P(ToolTexts, FindsCallsInTheWholeTextAndByteByByte) {
  const Case& each = GetParam();
  EXPECT_EQ(parse(each.options, {each.text}), each.answer) << each.text;
  std::vector<std::string> bytes;
  for (const char c : each.text) bytes.emplace_back(1, c);
  EXPECT_EQ(parse(each.options, bytes), each.answer) << each.text;
}

const Case kCases[] = {
    // Llama 3
    {"llama3_call",
     kLlama3,
     R"({"name": "f", "parameters": {"a": "x}"}})",
     {"", {{"f", R"({"a": "x}"})"}}}},
    {"llama3_tagged",
     kLlama3,
     R"(<|python_tag|>{"name": "f", "arguments": {}})",
     {"", {{"f", "{}"}}}},
    {"llama3_text_before_the_tag",
     kLlama3,
     "Let me look.\n<|python_tag|>{\"name\": \"f\", \"parameters\": {}}",
     {"Let me look.", {{"f", "{}"}}}},
    {"llama3_several",
     kLlama3,
     R"({"name": "f", "parameters": {}}; {"name": "g", "parameters": {"b": [1, 2]}};)",
     {"", {{"f", "{}"}, {"g", R"({"b": [1, 2]})"}}}},
    {"llama3_typed",
     kLlama3,
     R"({"type": "function", "name": "f", "parameters": {"a": 1}})",
     {"", {{"f", R"({"a": 1})"}}}},
    {"llama3_arguments_first",
     kLlama3,
     R"({"parameters": {"a": 1}, "name": "f"})",
     {"", {{"f", R"({"a": 1})"}}}},
    {"llama3_json_answer",
     kLlama3,
     R"({"answer": 42, "name": "f", "parameters": {}})",
     {R"({"answer": 42, "name": "f", "parameters": {}})", {}}},
    {"llama3_json_later",
     kLlama3,
     R"(It is {"name": "f", "parameters": {}})",
     {R"(It is {"name": "f", "parameters": {}})", {}}},
    {"llama3_code_behind_the_tag", kLlama3, "<|python_tag|>print(1)", {"print(1)", {}}},
    {"llama3_text_behind",
     kLlama3,
     R"({"name": "f", "parameters": {}}; and so on)",
     {"; and so on", {{"f", "{}"}}}},
    {"llama3_brace_missing",
     kLlama3,
     R"({"name": "f", "parameters": {"a": 1}; {"name": "g", "parameters": {}})",
     {"", {{"f", R"({"a": 1})"}, {"g", "{}"}}}},
    // Hermes and Qwen
    {"hermes_call",
     kHermes,
     "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": {\"b\": \"\\\"}\"}}}\n</tool_call>",
     {"", {{"f", R"({"a": {"b": "\"}"}})"}}}},
    {"hermes_several_in_text",
     kHermes,
     "One moment.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n"
     "{\"name\": \"g\", \"arguments\": {}}\n</tool_call>",
     {"One moment.", {{"f", "{}"}, {"g", "{}"}}}},
    {"hermes_text_behind",
     kHermes,
     "a <tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call> b",
     {"a  b", {{"f", "{}"}}}},
    {"hermes_text_behind_alone",
     kHermes,
     "\n<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>\n b",
     {"b", {{"f", "{}"}}}},
    {"hermes_no_end_tag",
     kHermes,
     R"(<tool_call>{"name": "f", "arguments": {"a": 1}})",
     {"", {{"f", R"({"a": 1})"}}}},
    {"hermes_cut_short",
     kHermes,
     R"(<tool_call>{"name": "f", "arguments": {"a": "x)",
     {"", {{"f", R"({"a": "x)"}}}},
    {"hermes_cut_in_the_name",
     kHermes,
     R"(<tool_call>{"name": "f)",
     {R"(<tool_call>{"name": "f)", {}}},
    {"hermes_brace_missing",
     kHermes,
     "<tool_call>\n{\"name\": \"f\", \"arguments\": {}\n</tool_call>",
     {"", {{"f", "{}"}}}},
    {"hermes_no_json", kHermes, "<tool_call>f(1)</tool_call>", {"<tool_call>f(1)</tool_call>", {}}},
    {"hermes_no_name",
     kHermes,
     R"(<tool_call>{"arguments": {}}</tool_call>)",
     {R"(<tool_call>{"arguments": {}}</tool_call>)", {}}},
    {"hermes_no_arguments",
     kHermes,
     R"(<tool_call>{"name": "f"}</tool_call>)",
     {R"(<tool_call>{"name": "f"}</tool_call>)", {}}},
    {"hermes_arguments_of_another_type",
     kHermes,
     R"(<tool_call>{"name": "f", "arguments": [1]}</tool_call>)",
     {R"(<tool_call>{"name": "f", "arguments": [1]}</tool_call>)", {}}},
    {"hermes_arguments_null",
     kHermes,
     R"(<tool_call>{"name": "f", "arguments": null}</tool_call>)",
     {"", {{"f", "{}"}}}},
    {"hermes_arguments_as_text",
     kHermes,
     R"(<tool_call>{"name": "f", "arguments": "{\"a\": \"\u00e9\"}"}</tool_call>)",
     {"", {{"f", "{\"a\": \"é\"}"}}}},
    {"hermes_arguments_as_prose",
     kHermes,
     R"(<tool_call>{"name": "f", "arguments": "now"}</tool_call>)",
     {R"(<tool_call>{"name": "f", "arguments": "now"}</tool_call>)", {}}},
    {"hermes_name_escaped",
     kHermes,
     R"(<tool_call>{"name": "\u00e9\"", "arguments": {}}</tool_call>)",
     {"", {{"é\"", "{}"}}}},
    {"hermes_other_members",
     kHermes,
     R"(<tool_call>{"id": -1.5e3, "why": {"name": "g"}, "name": "f", "arguments": {}, "arguments": {"b": 1}, "x": null}</tool_call>)",
     {"", {{"f", "{}"}}}},
    {"hermes_tag_in_a_string",
     kHermes,
     R"(<tool_call>{"name": "f", "arguments": {"a": "</tool_call>"}}</tool_call>)",
     {"", {{"f", R"({"a": "</tool_call>"})"}}}},
    {"hermes_tag_twice",
     kHermes,
     R"(<tool_call><tool_call>{"name": "f", "arguments": {}}</tool_call>)",
     {"<tool_call>", {{"f", "{}"}}}},
    {"hermes_half_a_tag", kHermes, "a < b <tool_ca", {"a < b <tool_ca", {}}},
    {"hermes_tags_hidden",
     {ToolFormat::hermes, false, {"<tool_call>", "</tool_call>"}},
     "<tool_call>f</tool_call> x",
     {"f x", {}}},
    {"hermes_broken_arguments",
     kHermes,
     R"(<tool_call>{"name": "f", "arguments": {"a": oops}}</tool_call>)",
     {"", {{"f", R"({"a": oops})"}}}},
    {"hermes_plain_text", kHermes, "\n Hello,\n\n world. \n", {"\n Hello,\n\n world. \n", {}}},
    // Mistral
    {"mistral_list",
     kMistral,
     R"([TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}}])",
     {"", {{"f", R"({"a": 1})"}, {"g", "{}"}}}},
    {"mistral_list_with_ids",
     kMistral,
     R"([TOOL_CALLS][{"name": "f", "arguments": {}, "id": "abcdefghi"}])",
     {"", {{"f", "{}"}}}},
    {"mistral_list_not_ended",
     kMistral,
     R"([TOOL_CALLS][{"name": "f", "arguments": {}}, )",
     {"", {{"f", "{}"}}}},
    {"mistral_words",
     kMistral,
     R"(Hm.[TOOL_CALLS]f[ARGS]{"a": 1}[TOOL_CALLS]g[CALL_ID]abcdefghi[ARGS]{})",
     {"Hm.", {{"f", R"({"a": 1})"}, {"g", "{}"}}}},
    {"mistral_words_without_args",
     kMistral,
     R"([TOOL_CALLS]f{"a": 1})",
     {"", {{"f", R"({"a": 1})"}}}},
    {"mistral_no_call", kMistral, "[TOOL_CALLS] I cannot", {" I cannot", {}}},
    {"mistral_broken_word", kMistral, "[TOOL_CALLS]f[AR", {"f[AR", {}}},
    {"mistral_other_bracket", kMistral, "[TOOL_CALLS]f[ARX]{}", {"f[ARX]{}", {}}},
    {"mistral_begins_anew",
     kMistral,
     R"([TOOL_CALLS]f[TOOL_CALLS]g[ARGS]{})",
     {"f", {{"g", "{}"}}}},
    {"mistral_second_element_broken",
     kMistral,
     R"([TOOL_CALLS][{"name": "f", "arguments": {}}, {"nam": 1}])",
     {R"(, {"nam": 1}])", {{"f", "{}"}}}},
    {"mistral_list_without_marker",
     kMistral,
     R"([{"name": "f", "arguments": {}}])",
     {R"([{"name": "f", "arguments": {}}])", {}}},
    {"mistral_enforced",
     kEnforcedMistral,
     R"([{"name": "f", "arguments": {}}])",
     {"", {{"f", "{}"}}}},
    {"json_enforced",
     kJson,
     R"([{"name": "f", "parameters": {}}, {"name": "g", "parameters": {}}])",
     {"", {{"f", "{}"}, {"g", "{}"}}}},
};

INSTANTIATE_TEST_SUITE_P(Of, ToolTexts, testing::ValuesIn(kCases),
                         [](const auto& each) { return std::string(each.param.name); });

// Joins pieces of the formats at random, so that most texts are nearly calls.
std::string random_text(std::mt19937_64& random) {
  static const std::vector<std::string> kPieces = {"<tool_call>",
                                                   "</tool_call>",
                                                   "<|python_tag|>",
                                                   "[TOOL_CALLS]",
                                                   "[ARGS]",
                                                   "[CALL_ID]",
                                                   "[",
                                                   "]",
                                                   "{",
                                                   "}",
                                                   "{\"name\": \"f\", \"arguments\": ",
                                                   "{\"name\": \"f\", \"parameters\": {\"a\": 1}}",
                                                   "\"name\"",
                                                   "\"arguments\"",
                                                   "\"",
                                                   "\\",
                                                   ":",
                                                   ",",
                                                   ";",
                                                   " ",
                                                   "\n",
                                                   "f",
                                                   "null",
                                                   "é",
                                                   "<",
                                                   "1e999999",
                                                   "\\u00e9",
                                                   "{}"};
  std::string text;
  const auto count = std::uniform_int_distribution<int>(0, 24)(random);
  for (int i = 0; i < count; ++i) {
    text += kPieces[std::uniform_int_distribution<std::size_t>(0, kPieces.size() - 1)(random)];
  }
  return text;
}

std::vector<std::string> cut(const std::string& text, std::mt19937_64& random) {
  std::vector<std::string> pieces;
  for (std::size_t at = 0; at < text.size();) {
    const auto size = std::uniform_int_distribution<std::size_t>(0, 7)(random);
    pieces.push_back(text.substr(at, size));
    at += size;
  }
  return pieces;
}

TEST(ToolParserTexts, SayTheSameInWhateverPiecesTheyCome) {
  std::mt19937_64 random(test_seed());
  for (int i = 0; i < 1500; ++i) {
    const std::string text = random_text(random);
    // This is a call, whatever text follows.
    const std::string call = R"(<tool_call>{"name": "f", "arguments": {}}</tool_call>)" + text;
    const ParsedAnswer called = parse(kHermes, {call});
    ASSERT_FALSE(called.calls.empty()) << call;
    ASSERT_EQ(parse(kHermes, cut(call, random)), called) << call;
    for (const ToolParserOptions& options : {kLlama3, kHermes, kMistral, kEnforcedMistral, kJson}) {
      const ParsedAnswer whole = parse(options, {text});
      ASSERT_EQ(parse(options, cut(text, random)), whole) << text;
    }
  }
}

TEST(ToolParserTexts, LoseNothingWithoutACall) {
  std::mt19937_64 random(test_seed());
  for (int i = 0; i < 1500; ++i) {
    const std::string text = random_text(random);
    std::string none = text;  // a call needs an object
    std::erase(none, '{');
    for (const ToolFormat format : {ToolFormat::llama3, ToolFormat::hermes, ToolFormat::mistral}) {
      ASSERT_EQ(parse({format, false, {}}, {none}), (ParsedAnswer{none, {}})) << name_of(format);
      const ParsedAnswer answer = parse({format, false, {}}, {text});
      if (!answer.calls.empty()) continue;
      ASSERT_EQ(answer.content, text) << name_of(format);
    }
  }
}

TEST(ToolParserTexts, AreHeldBackNoLongerThanTheirBound) {
  const std::string beginnings[] = {
      "<tool_call>{\"x\": \"",   "<tool_call>{\"arguments\": {\"x\": \"",
      "<tool_call>{\"name\": 1", "<tool_call>{\"x\": {",
      "<tool_call>{\"",          "<tool_call>{\"arguments\": \""};
  for (const std::string& beginning : beginnings) {
    const std::string text = beginning + std::string(kMaxHeldBytes, '1') + "<tool_call>";
    const auto parser = make_tool_parser(kHermes);
    const ParsedDelta delta = parser->push(text);
    EXPECT_GE(delta.content.size(), kMaxHeldBytes) << beginning;
    EXPECT_EQ(delta.content + parser->finish().content, text);
  }
  const auto parser = make_tool_parser(kHermes);
  EXPECT_GE(parser->push("<tool_call>" + std::string(2 * kMaxHeldBytes, ' ')).content.size(),
            kMaxHeldBytes);
}

TEST(ToolParserTexts, MayNestAsDeepAsTheyLike) {
  const std::string deep(1U << 18, '[');
  const ParsedAnswer inside =
      parse(kHermes, {"<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": " + deep});
  ASSERT_EQ(inside.calls.size(), 1U);
  EXPECT_EQ(inside.calls.front().arguments.size(), deep.size() + 6);
  EXPECT_EQ(parse(kMistral, {"[TOOL_CALLS]" + deep}).content, deep);
}

TEST(ToolParserTexts, HaveSoManyCallsAtMost) {
  std::string text;
  for (int i = 0; i < kMaxToolCalls + 2; ++i) text += "[TOOL_CALLS]f{}";
  const ParsedAnswer answer = parse(kMistral, {text});
  EXPECT_EQ(answer.calls.size(), static_cast<std::size_t>(kMaxToolCalls));
  EXPECT_EQ(answer.content, "f{}f{}");
}

TEST(ToolParserTexts, TellArgumentsAsTheyCome) {
  const auto parser = make_tool_parser(kHermes);
  EXPECT_TRUE(parser->push("<tool_call>{\"name\": \"f\", ").calls.empty());
  EXPECT_EQ(parser->num_calls(), 0);
  const ParsedDelta first = parser->push("\"arguments\": {\"a");
  ASSERT_EQ(first.calls.size(), 1U);
  EXPECT_EQ(first.calls[0].name, "f");
  EXPECT_EQ(first.calls[0].arguments, "{\"a");
  EXPECT_EQ(parser->num_calls(), 1);
  const ParsedDelta next = parser->push("\": 1");
  ASSERT_EQ(next.calls.size(), 1U);
  EXPECT_EQ(next.calls[0].name, "");
  EXPECT_EQ(next.calls[0].arguments, "\": 1");
}

}  // namespace
}  // namespace tandem
