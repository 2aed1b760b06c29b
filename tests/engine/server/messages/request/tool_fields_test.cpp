#include "engine/server/messages/request/tool_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/server/messages/request/request_parsing.h"
#include "tests/engine/server/fake_service.h"

namespace tandem {
namespace {

using nlohmann::json;
using testing::HasSubstr;

MaybeError parse_chat(const std::string& fields, CompletionCall& call) {
  const std::string bytes = R"({"messages": [{"role": "user", "content": "x"}], )" + fields + "}";
  return parse_call(json::parse(bytes), true, 256, call, {.bytes = bytes});
}

void expect_fault(const std::string& fields, const char* param, const char* what) {
  CompletionCall call;
  const MaybeError error = parse_chat(fields, call);
  ASSERT_TRUE(error.has_value()) << fields;
  EXPECT_EQ(error->status, 400);
  EXPECT_EQ(error->param, param) << fields;
  EXPECT_THAT(error->message, HasSubstr(what)) << fields;
}

std::string many_tools(int count) {
  json tools = json::array();
  for (int i = 0; i < count; ++i) tools.push_back({{"name", "f" + std::to_string(i)}});
  return R"("tools": )" + tools.dump();
}

TEST(ToolFields, NameTheFaultOfATool) {
  const struct {
    const char* tools;
    const char* what;
  } cases[] = {
      {R"([1])", "must be a list of"},
      {R"([{"type": "function", "function": 1}])", "tools[0]: 'function' must be an object"},
      {R"([{"type": "custom", "function": {"name": "f"}}])", "tools[0] is of a type"},
      {R"([{"name": "f"}, {"type": "function", "function": {}}])", "tools[1]: a name has 1 to 64"},
      {R"([{"name": "a b"}])", "a name has"},
      {R"([{"name": ""}])", "a name has"},
      {R"([{"name": "f", "description": 1}])", "'description' must be a string"},
      {R"([{"name": "f", "strict": 1}])", "'strict' must be true or false"},
      {R"([{"name": "f", "parameters": []}])", "'parameters' must be a JSON schema"},
      {R"([{"name": "f", "parameters": {"type": "array"}}])", "the schema of an object"},
  };
  for (const auto& [tools, what] : cases) {
    expect_fault(std::string(R"("tools": )") + tools, "tools", what);
  }
  expect_fault(R"("tools": [{"name": ")" + std::string(65, 'f') + R"("}])", "tools", "a name has");
  expect_fault(R"("tools": [{"name": "f", "description": ")" + std::string(300000, 'd') + R"("}])",
               "tools", "at most 256 KiB");
  expect_fault(many_tools(129), "tools", "at most 128 are taken");
}

TEST(ToolFields, TakeToolsInOrderAndFunctionsAlone) {
  CompletionCall call;
  const auto error = parse_chat(
      R"("tools": [{"name": "b_-2", "parameters": {"z": 1, "a": 2}},
                   {"type": "function", "function": {"name": "a", "description": null, "strict": true}}])",
      call);
  ASSERT_FALSE(error.has_value()) << error->message;
  ASSERT_EQ(call.tool_use.tools.size(), 2U);
  EXPECT_EQ(call.tool_use.tools[0].name, "b_-2");
  EXPECT_EQ(call.tool_use.tools[0].parameters.dump(), R"({"z":1,"a":2})");
  EXPECT_TRUE(call.tool_use.tools[1].parameters.is_null());
  EXPECT_EQ(call.tool_use.choice.kind, ToolChoice::Kind::automatic);
  EXPECT_TRUE(call.tool_use.parallel);
  EXPECT_EQ(call.chat_input.variables["tools"].size(), 2U);
  CompletionCall most;
  EXPECT_FALSE(parse_chat(many_tools(128), most).has_value());
}

TEST(ToolFields, ReadTheChoice) {
  const struct {
    const char* choice;
    ToolChoice::Kind kind;
  } cases[] = {
      {R"("auto")", ToolChoice::Kind::automatic},
      {R"("none")", ToolChoice::Kind::none},
      {R"("required")", ToolChoice::Kind::required},
      {R"({"type": "function", "function": {"name": "f"}})", ToolChoice::Kind::named},
  };
  for (const auto& [choice, kind] : cases) {
    CompletionCall call;
    const auto error =
        parse_chat(std::string(R"("tools": [{"name": "f"}], "tool_choice": )") + choice, call);
    ASSERT_FALSE(error.has_value()) << error->message;
    EXPECT_EQ(call.tool_use.choice.kind, kind) << choice;
    EXPECT_EQ(call.tool_use.choice.name, kind == ToolChoice::Kind::named ? "f" : "");
  }
}

TEST(ToolFields, NameTheFaultOfAChoice) {
  const std::string tools = R"("tools": [{"name": "f"}], "tool_choice": )";
  for (const char* choice :
       {R"("any")", "1", R"({"type": "function"})", R"({"function": {"name": 1}})",
        R"({"type": "tool", "function": {"name": "f"}})", "{}", "[]"}) {
    expect_fault(tools + choice, "tool_choice", "must be \"auto\", \"none\", \"required\" or");
  }
  expect_fault(tools + R"({"type": "allowed_tools"})", "tool_choice", "'allowed_tools'");
  expect_fault(tools + R"({"type": "function", "function": {"name": "g"}})", "tool_choice",
               "not among 'tools'");
  expect_fault(R"("tool_choice": "required")", "tool_choice", "needs 'tools'");
  expect_fault(R"("tools": [], "tool_choice": {"type": "function", "function": {"name": "f"}})",
               "tool_choice", "needs 'tools'");
  expect_fault(R"("parallel_tool_calls": "no")", "parallel_tool_calls", "true or false");
}

std::vector<TokenId> truncated(const json& fields, bool chat, MaybeError* told = nullptr) {
  constexpr std::int32_t kMaxModelLen = 32;
  CompletionCall call;
  std::vector<GenerationRequest> requests;
  MaybeError error = parse_call(fields, chat, 256, call);
  if (!error) error = make_requests(call, ByteCodec(), kMaxModelLen, requests);
  if (told != nullptr) *told = error;
  EXPECT_EQ(told == nullptr, !error.has_value()) << fields;
  return requests.empty() ? std::vector<TokenId>() : requests.front().prompt;
}

TEST(TruncatePromptTokens, KeepsTheLast) {
  EXPECT_EQ(truncated({{"prompt", "abcd"}, {"truncate_prompt_tokens", 2}}, false),
            (std::vector<TokenId>{'c', 'd'}));
  EXPECT_EQ(truncated({{"prompt", "abc"}, {"truncate_prompt_tokens", 32}}, false),
            (std::vector<TokenId>{ByteCodec::kBos, 'a', 'b', 'c'}));
  EXPECT_EQ(truncated({{"prompt", {1, 2, 3}}, {"truncate_prompt_tokens", 1}}, false),
            (std::vector<TokenId>{3}));
  const json chat{{"messages", {{{"role", "user"}, {"content", "x"}}}},
                  {"truncate_prompt_tokens", 3}};
  EXPECT_EQ(truncated(chat, true), (std::vector<TokenId>{'n', 't', ':'}));
}

TEST(TruncatePromptTokens, LeavesRoomForTheAnswer) {
  const std::string prompt(100, 'p');
  EXPECT_EQ(truncated({{"prompt", prompt}, {"truncate_prompt_tokens", -1}}, false).size(), 16U);
  EXPECT_EQ(
      truncated({{"prompt", prompt}, {"truncate_prompt_tokens", -1}, {"max_tokens", 4}}, false)
          .size(),
      28U);
  EXPECT_EQ(
      truncated({{"prompt", prompt}, {"truncate_prompt_tokens", -1}, {"max_tokens", 99}}, false)
          .size(),
      1U);
  const json chat{{"messages", {{{"role", "user"}, {"content", prompt}}}},
                  {"truncate_prompt_tokens", -1}};
  EXPECT_EQ(truncated(chat, true).size(), 31U);
}

TEST(TruncatePromptTokens, NamesItsFaults) {
  MaybeError error;
  for (const std::int32_t wrong : {0, -2, 33}) {
    truncated({{"prompt", "p"}, {"truncate_prompt_tokens", wrong}}, false, &error);
    ASSERT_TRUE(error.has_value()) << wrong;
    EXPECT_EQ(error->param, "truncate_prompt_tokens");
  }
  EXPECT_THAT(error->message, HasSubstr("context is 32 tokens"));
  // A prompt cut to the whole context leaves no room for an answer.
  truncated({{"prompt", std::string(99, 'p')}, {"truncate_prompt_tokens", 32}}, false, &error);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code, "context_length_exceeded");
}

}  // namespace
}  // namespace tandem
