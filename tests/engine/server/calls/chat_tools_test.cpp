// Tool calls in chat answers, whole and streamed.
#include <gtest/gtest.h>

#include "tests/engine/server/server_fixture.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr const char* kChat = "/v1/chat/completions";
constexpr const char* kCall =
    "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>";

json tool(const char* name) {
  return {{"type", "function"},
          {"function", {{"name", name}, {"parameters", {{"type", "object"}}}}}};
}

class ChatToolsTest : public ServerTest {
 protected:
  ChatToolsTest() { tool_format = ToolFormat::hermes; }

  static json ask(const json& fields = json::object()) {
    json body{{"messages", {{{"role", "user"}, {"content", "x"}}}},
              {"tools", {tool("f"), tool("g")}}};
    body.update(fields);
    return body;
  }
  // Sets the answer, sent in pieces of three bytes.
  void answer(const std::string& said, FinishReason reason = FinishReason::stop) {
    service.script = [said, reason](FakeRun& run) {
      for (std::int32_t n = 0; n < run.request.n; ++n) {
        for (std::size_t at = 0; at < said.size(); at += 3) run.say(said.substr(at, 3), n);
        run.finish(reason, n);
      }
    };
  }
  json choice(const json& fields = json::object()) {
    const auto response = post(port, kChat, ask(fields));
    EXPECT_EQ(response.status, 200) << response.body;
    return response.json()["choices"][0];
  }
  std::vector<json> chunks(json fields = json::object()) {
    fields["stream"] = true;
    std::vector<json> choices;
    for (const std::string& event : events_of(post(port, kChat, ask(fields)).body)) {
      if (event != "[DONE]") choices.push_back(json::parse(event)["choices"][0]);
    }
    return choices;
  }
};

TEST_F(ChatToolsTest, AreCallsInTheMessage) {
  answer(std::string("Let me look.\n") + kCall + "\n" + kCall);
  start();
  const json got = choice();
  EXPECT_EQ(got["finish_reason"], "tool_calls");
  const json& message = got["message"];
  EXPECT_EQ(message["content"], "Let me look.");
  ASSERT_EQ(message["tool_calls"].size(), 2U);
  json call = message["tool_calls"][0];
  const auto id = call["id"].get<std::string>();
  EXPECT_TRUE(id.starts_with("call_")) << id;
  EXPECT_NE(id, message["tool_calls"][1]["id"].get<std::string>());
  call.erase("id");
  EXPECT_EQ(
      call,
      json::parse(R"({"type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}})"));
}

TEST_F(ChatToolsTest, LeaveContentNullIfTheyAreAll) {
  answer(kCall);
  start();
  EXPECT_EQ(choice()["message"]["content"], nullptr);
}

TEST_F(ChatToolsTest, AreNoneInPlainText) {
  answer("Hello there");
  start();
  const json got = choice();
  EXPECT_EQ(got["message"], (json{{"role", "assistant"}, {"content", "Hello there"}}));
  EXPECT_EQ(got["finish_reason"], "stop");
}

TEST_F(ChatToolsTest, StayTextWhereNobodyReadsThem) {
  answer(kCall);
  start();
  EXPECT_EQ(choice({{"tool_choice", "none"}})["message"]["content"], kCall);
  EXPECT_EQ(choice({{"tools", nullptr}})["message"]["content"], kCall);
  EXPECT_EQ(choice({{"tools", json::array()}})["finish_reason"], "stop");
  server.reset();
  tool_format = ToolFormat::none;
  start();
  EXPECT_EQ(choice()["message"]["content"], kCall);
}

TEST_F(ChatToolsTest, AreStreamedAsTheyCome) {
  answer(std::string("Hm.\n") + kCall);
  start();
  const auto got = chunks();
  EXPECT_EQ(got.front()["delta"]["role"], "assistant");
  std::string content;
  std::string arguments;
  int starts = 0;
  int fragments = 0;
  for (const json& each : got) {
    const json& delta = each["delta"];
    if (delta.contains("content") && delta["content"].is_string()) content += delta["content"];
    if (!delta.contains("tool_calls")) continue;
    const json& call = delta["tool_calls"][0];
    EXPECT_EQ(call["index"], 0);
    if (call.contains("id")) {
      ++starts;
      EXPECT_EQ(call["type"], "function");
      EXPECT_EQ(call["function"], (json{{"name", "f"}, {"arguments", ""}}));
    } else {
      ++fragments;
      EXPECT_EQ(call["function"].size(), 1U);
      arguments += call["function"]["arguments"];
    }
  }
  EXPECT_EQ(content, "Hm.");
  EXPECT_EQ(starts, 1);
  EXPECT_GT(fragments, 1);
  EXPECT_EQ(arguments, R"({"a": 1})");
  EXPECT_EQ(got.back()["delta"], json::object());
  EXPECT_EQ(got.back()["finish_reason"], "tool_calls");
}

TEST_F(ChatToolsTest, AreCutShortByTheLength) {
  answer(std::string(kCall).substr(0, 46), FinishReason::length);
  start();
  const json got = choice();
  EXPECT_EQ(got["finish_reason"], "length");
  EXPECT_EQ(got["message"]["tool_calls"][0]["function"]["arguments"], "{\"a\": 1");
  EXPECT_EQ(chunks().back()["finish_reason"], "length");
}

TEST_F(ChatToolsTest, AreOfEachChoice) {
  answer(kCall);
  start();
  const json got = post(port, kChat, ask({{"n", 2}})).json();
  EXPECT_NE(got["choices"][0]["message"]["tool_calls"][0]["id"],
            got["choices"][1]["message"]["tool_calls"][0]["id"]);
  EXPECT_EQ(got["usage"]["completion_tokens"], 4);
}

TEST_F(ChatToolsTest, AreOneIfTheyMayNotBeParallel) {
  answer(std::string(kCall) + "\n" + kCall);
  start();
  EXPECT_EQ(choice({{"parallel_tool_calls", false}})["message"]["tool_calls"].size(), 1U);
  int calls = 0;
  for (const json& each : chunks({{"parallel_tool_calls", false}})) {
    if (!each["delta"].contains("tool_calls")) continue;
    EXPECT_EQ(each["delta"]["tool_calls"][0]["index"], 0);
    calls += each["delta"]["tool_calls"][0].contains("id") ? 1 : 0;
  }
  EXPECT_EQ(calls, 1);
}

TEST_F(ChatToolsTest, ComeWithTheLogprobsOfAllTokens) {
  service.script = [](FakeRun& run) {
    for (const char c : std::string(kCall)) {
      OutputDelta delta;
      delta.text = std::string(1, c);
      delta.tokens = {static_cast<unsigned char>(c)};
      delta.logprobs = {{static_cast<unsigned char>(c), -0.5F, {}}};
      run.push(std::move(delta));
    }
    run.finish();
  };
  start();
  EXPECT_EQ(choice({{"logprobs", true}})["logprobs"]["content"].size(), std::string(kCall).size());
  std::size_t told = 0;
  for (const json& each : chunks({{"logprobs", true}})) {
    if (each["logprobs"].is_object()) told += each["logprobs"]["content"].size();
  }
  EXPECT_EQ(told, std::string(kCall).size());
}

TEST_F(ChatToolsTest, KeepTheirMarkersInTheTextAndOutOfTheContent) {
  text.special = {"<tool_call>", "</tool_call>"};
  answer("<tool_call>no call</tool_call>");
  start();
  EXPECT_EQ(choice()["message"]["content"], "no call");
  EXPECT_EQ(service.run(0)->request.kept_special_tokens, (std::vector<TokenId>{300, 301}));
  EXPECT_EQ(choice({{"skip_special_tokens", false}})["message"]["content"],
            "<tool_call>no call</tool_call>");
  EXPECT_TRUE(service.run(1)->request.kept_special_tokens.empty());
  choice({{"tool_choice", "none"}});
  EXPECT_TRUE(service.run(2)->request.kept_special_tokens.empty());
}

TEST_F(ChatToolsTest, HaveTheIdsThatMistralsTemplatesTake) {
  tool_format = ToolFormat::mistral;
  answer("[TOOL_CALLS]f[ARGS]{}");
  start();
  EXPECT_EQ(choice()["message"]["tool_calls"][0]["id"].get<std::string>().size(), 9U);
}

TEST_F(ChatToolsTest, AreEnforcedByAGrammar) {
  answer(kCall);
  start();
  EXPECT_EQ(choice({{"tool_choice", "required"}})["finish_reason"], "tool_calls");
  const TextConstraint required = service.run(0)->request.constraint;
  EXPECT_EQ(required.kind, TextConstraint::Kind::structural_tag);
  EXPECT_EQ(json::parse(required.text)["format"]["tags"].size(), 2U);
  const json named{{"type", "function"}, {"function", {{"name", "g"}}}};
  // As with OpenAI, the answer ends because the call ends.
  EXPECT_EQ(choice({{"tool_choice", named}})["finish_reason"], "stop");
  const json format = json::parse(service.run(1)->request.constraint.text)["format"];
  ASSERT_EQ(format["tags"].size(), 1U);
  EXPECT_NE(format["tags"][0]["begin"].get<std::string>().find("\"g\""), std::string::npos);
  choice();
  EXPECT_EQ(service.run(2)->request.constraint, TextConstraint{});
}

TEST_F(ChatToolsTest, AreEnforcedAsAListWhereTheModelHasNoFormat) {
  tool_format = ToolFormat::none;
  answer(R"([{"name": "g", "parameters": {"a": 1}}])");
  start();
  const json got = choice({{"tool_choice", "required"}});
  EXPECT_EQ(got["message"]["content"], nullptr);
  EXPECT_EQ(got["message"]["tool_calls"][0]["function"]["name"], "g");
  EXPECT_EQ(got["finish_reason"], "tool_calls");
}

TEST_F(ChatToolsTest, AreNotEnforcedByAnEngineThatCannot) {
  service.enforces = false;
  start();
  const auto response = post(port, kChat, ask({{"tool_choice", "required"}}));
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.error("param"), "tool_choice");
  EXPECT_EQ(response.error("code"), "not_supported");
  EXPECT_EQ(post(port, kChat, ask()).status, 200);
}

}  // namespace
}  // namespace tandem
