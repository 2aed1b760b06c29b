#include "engine/server/tool_calls/tool_constraint.h"

#include <gtest/gtest.h>

#include "engine/server/tool_calls/tool_format.h"
#include "tests/engine/server/tool_calls/tool_text.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;
using Kind = ToolChoice::Kind;

const Json kSchema =
    Json::parse(R"({"type": "object", "properties": {"b": {"$ref": "#/$defs/n"}, "a": {}},
                                     "required": ["b"], "$defs": {"n": {"type": "integer"}}})");

ToolUse use_of(Kind kind, bool parallel = true) {
  return {{{"f", kSchema}, {"g", nullptr}}, {kind, kind == Kind::named ? "f" : ""}, parallel};
}

Json built(const ToolUse& use, ToolFormat format) {
  const TextConstraint constraint = tool_constraint(use, format);
  EXPECT_EQ(constraint.kind, TextConstraint::Kind::structural_tag);
  const Json root = Json::parse(constraint.text);
  EXPECT_EQ(root["type"], "structural_tag");
  return root["format"];
}

// Makes a text that the constraint allows: each tag once, with valid arguments.
std::string text_of(const Json& format) {
  if (format["type"] == "tag") {
    const Json& content = format["content"];
    const std::string inside = content["type"] == "json_schema" ? R"({"b": 1})" : text_of(content);
    return format["begin"].get<std::string>() + inside + format["end"].get<std::string>();
  }
  EXPECT_EQ(format["type"], "tags_with_separator");
  std::string text;
  for (const Json& tag : format["tags"]) {
    if (!text.empty()) text += format["separator"].get<std::string>();
    text += text_of(tag);
  }
  return text;
}

TEST(ToolConstraint, IsNoneUnlessCallsAreEnforced) {
  for (const Kind kind : {Kind::automatic, Kind::none}) {
    EXPECT_EQ(tool_constraint(use_of(kind), ToolFormat::hermes), TextConstraint{});
  }
}

TEST(ToolConstraint, LeavesTextThatTheParserReads) {
  for (const ToolFormat format :
       {ToolFormat::llama3, ToolFormat::hermes, ToolFormat::mistral, ToolFormat::json}) {
    for (const Kind kind : {Kind::required, Kind::named}) {
      const ToolUse use = use_of(kind);
      const std::string text = text_of(built(use, format));
      const ParsedAnswer answer = parse({format, begins_with_call(use, format), {}}, {text});
      EXPECT_EQ(answer.content, "") << text;
      ASSERT_EQ(answer.calls.size(), kind == Kind::named ? 1U : 2U) << text;
      EXPECT_EQ(answer.calls[0], (ParsedCall{"f", R"({"b": 1})"})) << text;
      if (kind == Kind::required) {
        EXPECT_EQ(answer.calls[1].name, "g") << text;
      }
    }
  }
}

TEST(ToolConstraint, IsInTheFamilysOwnWords) {
  const Json hermes = built(use_of(Kind::named), ToolFormat::hermes);
  ASSERT_EQ(hermes["tags"].size(), 1U);
  EXPECT_EQ(hermes["tags"][0]["begin"], "<tool_call>\n{\"name\": \"f\", \"arguments\": ");
  EXPECT_EQ(hermes["tags"][0]["end"], "}\n</tool_call>");
  EXPECT_EQ(built(use_of(Kind::required), ToolFormat::llama3)["separator"], "; ");
  EXPECT_EQ(built(use_of(Kind::required), ToolFormat::mistral)["begin"], "[");
}

TEST(ToolConstraint, AsksForOneCallOrForSeveral) {
  EXPECT_EQ(built(use_of(Kind::required), ToolFormat::hermes)["stop_after_first"], false);
  EXPECT_EQ(built(use_of(Kind::required, false), ToolFormat::hermes)["stop_after_first"], true);
  EXPECT_EQ(built(use_of(Kind::named), ToolFormat::hermes)["stop_after_first"], true);
  EXPECT_EQ(built(use_of(Kind::required), ToolFormat::hermes)["at_least_one"], true);
}

TEST(ToolConstraint, KeepsSchemasInOrder) {
  const Json tags = built(use_of(Kind::required), ToolFormat::json)["content"]["tags"];
  EXPECT_EQ(tags[0]["content"]["json_schema"].dump(), kSchema.dump());
  EXPECT_EQ(tags[1]["content"]["json_schema"].dump(), R"({"type":"object","properties":{}})");
  const ToolUse untyped{
      {{"f", Json::parse(R"({"properties": {"a": {}}})")}}, {Kind::required, ""}, true};
  EXPECT_EQ(built(untyped, ToolFormat::hermes)["tags"][0]["content"]["json_schema"].dump(),
            R"({"type":"object","properties":{"a":{}}})");
}

TEST(ToolConstraint, LeavesOutOfAToolWhatCannotBeEnforcedUnlessItIsStrict) {
  ToolUse use = use_of(Kind::required);
  use.tools[0].strict = true;
  const Json tags = built(use, ToolFormat::hermes)["tags"];
  EXPECT_EQ(tags[0]["content"]["best_effort"], false);
  EXPECT_EQ(tags[1]["content"]["best_effort"], true);
}

TEST(ToolConstraint, LeavesTheModelToCallWhereAnotherFieldSaysWhatItsTextMustBe) {
  const ToolUse use = use_of(Kind::automatic);
  const auto elements = [&](const TextConstraint& text, ToolFormat format) {
    const TextConstraint both = text_or_calls(text, use, format);
    EXPECT_EQ(both.kind, TextConstraint::Kind::structural_tag);
    const Json root = Json::parse(both.text)["format"];
    EXPECT_EQ(root["type"], "or");
    return root["elements"];
  };
  const TextConstraint schema{TextConstraint::Kind::json_schema, R"({"z":1,"a":2})"};
  const Json hermes = elements(schema, ToolFormat::hermes);
  EXPECT_EQ(hermes[0].dump(), R"({"type":"json_schema","json_schema":{"z":1,"a":2}})");
  EXPECT_EQ(hermes[1], built(use_of(Kind::required), ToolFormat::hermes));
  const Json mistral = elements({TextConstraint::Kind::json_object, ""}, ToolFormat::mistral);
  EXPECT_EQ(mistral[0]["json_schema"].dump(), R"({"type":"object"})");
  EXPECT_EQ(mistral[1]["begin"], "[TOOL_CALLS][");
  EXPECT_EQ(elements({TextConstraint::Kind::regex, "a+"}, ToolFormat::llama3)[0]["pattern"], "a+");
  const TextConstraint tag{TextConstraint::Kind::structural_tag,
                           R"({"type":"structural_tag","format":{"type":"any_text"}})"};
  EXPECT_EQ(elements(tag, ToolFormat::hermes)[0]["type"], "any_text");
}

TEST(ToolConstraint, LeavesATextAsItIsWhereNoCallsAreReadOrItIsNone) {
  const ToolUse use = use_of(Kind::automatic);
  const TextConstraint schema{TextConstraint::Kind::json_schema, "{}"};
  EXPECT_EQ(text_or_calls(schema, use, ToolFormat::none), schema);
  EXPECT_EQ(text_or_calls({}, use, ToolFormat::hermes), TextConstraint{});
  const TextConstraint deep{TextConstraint::Kind::json_schema, std::string(100'000, '[')};
  EXPECT_EQ(text_or_calls(deep, use, ToolFormat::hermes), deep);
  const TextConstraint broken{TextConstraint::Kind::json_schema, "{"};
  EXPECT_EQ(text_or_calls(broken, use, ToolFormat::hermes), broken);
}

TEST(ToolConstraint, FallsBackToAListWhereTheModelHasNoFormat) {
  EXPECT_EQ(format_of(use_of(Kind::required), ToolFormat::none), ToolFormat::json);
  EXPECT_EQ(format_of(use_of(Kind::required), ToolFormat::hermes), ToolFormat::hermes);
  EXPECT_EQ(format_of(use_of(Kind::automatic), ToolFormat::none), ToolFormat::none);
  EXPECT_EQ(format_of(use_of(Kind::automatic), ToolFormat::llama3), ToolFormat::llama3);
  EXPECT_EQ(format_of(use_of(Kind::none), ToolFormat::llama3), ToolFormat::none);
  EXPECT_EQ(format_of({}, ToolFormat::llama3), ToolFormat::none);
}

TEST(ToolFormats, AreKnownByTheTemplate) {
  const auto no_token = [](std::string_view) { return false; };
  const auto all_tokens = [](std::string_view) { return true; };
  const auto tag = [](std::string_view token) { return token == "<|python_tag|>"; };
  EXPECT_EQ(detect_tool_format("{{ tools }} <tool_call>\n", no_token), ToolFormat::hermes);
  EXPECT_EQ(detect_tool_format("{{ '[TOOL_CALLS]' }}", tag), ToolFormat::mistral);
  EXPECT_EQ(detect_tool_format("{{ '<|python_tag|>' }}", no_token), ToolFormat::llama3);
  EXPECT_EQ(detect_tool_format("{% if tools %}Respond with {\"name\": ...", tag),
            ToolFormat::llama3);
  EXPECT_EQ(detect_tool_format("{% if tools %}", no_token), ToolFormat::none);
  EXPECT_EQ(detect_tool_format("{{ messages }}", all_tokens), ToolFormat::none);
  EXPECT_EQ(detect_tool_format("", all_tokens), ToolFormat::none);
  EXPECT_EQ(detect_tool_format("{{ tools }} <tool_call>\n<function=", all_tokens),
            ToolFormat::none);
}

TEST(ToolFormats, HaveNames) {
  for (const ToolFormat format :
       {ToolFormat::none, ToolFormat::llama3, ToolFormat::hermes, ToolFormat::mistral}) {
    EXPECT_EQ(tool_format(name_of(format)), format);
  }
  EXPECT_EQ(tool_format("json"), std::nullopt);
  EXPECT_EQ(tool_format("qwen"), std::nullopt);
}

}  // namespace
}  // namespace tandem
