#include "scheduler/cluster/router/client_call.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tandem {
namespace {

using nlohmann::json;

HttpRequest request_of(const std::string& path, const std::string& body) {
  HttpRequest request;
  request.method = "POST";
  request.path = path;
  request.body = body;
  return request;
}

TEST(ClientCall, SplicesTheClientsBytesIntoTheWrapperAsTheyCame) {
  ClientCall call;
  const std::string body = "{ \"model\" :\"a\", \"prompt\":[\"x\",\"y\"],\"n\":2, \"z\": 1.50 }";
  ASSERT_FALSE(read_client_call(request_of("/v1/completions", body), call));
  EXPECT_EQ(call.model, "a");
  EXPECT_EQ(call.choices, 4U);
  EXPECT_FALSE(call.stream);
  const std::string wrapped = relay_body(call, "[1]", WeightsIdentity{"b1", "d1"});
  EXPECT_TRUE(wrapped.ends_with(",\"request\":" + body + "}"));
  const json parsed = json::parse(wrapped);
  EXPECT_EQ(parsed["path"], "/v1/completions");
  EXPECT_EQ(parsed["seed"].get<std::uint64_t>(), call.seed);
  EXPECT_TRUE(parsed["id"].get<std::string>().starts_with("cmpl-"));
  EXPECT_EQ(parsed["sent"], json::array({1}));
  EXPECT_EQ(parsed["weights"], json({{"base", "b1"}, {"adapter", "d1"}}));
  const json fresh = json::parse(relay_body(call, "", std::nullopt));
  EXPECT_FALSE(fresh.contains("sent") || fresh.contains("weights"));
}

TEST(ClientCall, ReadsWhatRoutingNeeds) {
  ClientCall call;
  HttpRequest request = request_of("/v1/chat/completions",
                                   R"({"messages":[],"stream":true,"n":3,"max_tokens":7,
                                       "stream_options":{"include_usage":true}})");
  request.headers["x-slo-ttft-ms"] = "250";
  request.headers["x-slo-tpot-ms"] = "-1";
  ASSERT_FALSE(read_client_call(request, call));
  EXPECT_TRUE(call.stream);
  EXPECT_TRUE(call.include_usage);
  EXPECT_EQ(call.choices, 3U);
  EXPECT_EQ(call.max_tokens, 7);
  EXPECT_EQ(call.slo_ttft_s, 0.25);
  EXPECT_EQ(call.slo_token_s, 0);
  for (const char* prompt : {"[1,2,3]", "\"x\"", "[]", "7"}) {
    ClientCall one;
    const std::string body = std::string("{\"prompt\":") + prompt + ",\"n\":-4}";
    ASSERT_FALSE(read_client_call(request_of("/v1/completions", body), one));
    EXPECT_EQ(one.choices, 1U) << prompt;
  }
}

TEST(ClientCall, ReadsTheAdaptersThatAreNeeded) {
  const auto call_of = [](const std::string& body) {
    HttpRequest request;
    request.path = "/v1/completions";
    request.body = body;
    ClientCall call;
    EXPECT_FALSE(read_client_call(request, call));
    return call;
  };
  const std::string prompt = R"("prompt":")" + std::string(4096, 'x') + R"(")";
  const ClientCall call = call_of(
      "{" + prompt + R"(,"adapters":[{"name":"b","scale":0.5},{"name":"a"},7,{"scale":1}]})");
  EXPECT_EQ(call.adapters, (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(call.model, "");
  const ClientCall other =
      call_of("{" + prompt + R"(,"adapters":[{"name":"b","scale":0.25},{"name":"a"}]})");
  ASSERT_FALSE(call.prompt.empty());
  EXPECT_NE(call.prompt.front().hash, other.prompt.front().hash) << "other keys and values";
  EXPECT_TRUE(call_of("{" + prompt + R"(,"adapters":"a"})").adapters.empty());
}

TEST(ClientCall, RefusesMoreValuesThanOneRequestMayHold) {
  std::string body = R"({"prompt": "a", "unknown": [0)";
  while (body.size() < 4U << 20) body += R"(,{"":{}})";
  ClientCall call;
  const auto refused = read_client_call(request_of("/v1/completions", body + "]}"), call);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 413);
  EXPECT_EQ(refused->code, "body_too_long");
}

TEST(ClientCall, HasAnEventThatSaysNothing) {
  ClientCall call;
  ASSERT_FALSE(read_client_call(
      request_of("/v1/chat/completions",
                 R"({"model":"a","stream":true,"stream_options":{"include_usage":true},"n":2})"),
      call));
  const std::string event = silent_event(call, 1);
  ASSERT_TRUE(event.starts_with("data: {") && event.ends_with("}\n\n"));
  const json chunk = json::parse(event.substr(6));
  EXPECT_EQ(chunk["id"], call.id);
  EXPECT_EQ(chunk["object"], "chat.completion.chunk");
  EXPECT_EQ(chunk["model"], "a");
  EXPECT_TRUE(chunk["usage"].is_null());
  EXPECT_EQ(chunk["choices"][0]["index"], 1);
  EXPECT_EQ(chunk["choices"][0]["delta"], json::object());
  EXPECT_TRUE(chunk["choices"][0]["finish_reason"].is_null());
}

TEST(ClientCall, KnowsWhatOfAPromptComesFirst) {
  const auto shared = [](const char* path, const json& a, const json& b) {
    ClientCall one;
    ClientCall other;
    EXPECT_FALSE(read_client_call(request_of(path, a.dump()), one));
    EXPECT_FALSE(read_client_call(request_of(path, b.dump()), other));
    std::size_t count = 0;
    while (count < std::min(one.prompt.size(), other.prompt.size()) &&
           one.prompt[count] == other.prompt[count]) {
      ++count;
    }
    return count;
  };
  const std::string text(1000, 'x');
  const auto says = [](const std::string& role, const std::string& content) {
    return json{{"role", role}, {"content", content}};
  };
  constexpr const char* kChat = "/v1/chat/completions";
  const json system = says("system", text);
  const json talk = {{"messages", {system, says("user", "a")}}, {"seed", 1}};
  const json longer = {{"messages", {system, says("user", "a"), says("assistant", text)}},
                       {"temperature", 0}};
  EXPECT_GE(shared(kChat, talk, longer), 7U);
  // The same words by another role, for another model, or with tools share nothing.
  const json other = {{"messages", {says("user", text), says("user", "a")}}};
  EXPECT_EQ(shared(kChat, talk, other), 0U);
  json changed = talk;
  changed["model"] = "law";
  EXPECT_EQ(shared(kChat, talk, changed), 0U);
  changed = talk;
  changed["tools"] = {{{"type", "function"}}};
  EXPECT_EQ(shared(kChat, talk, changed), 0U);
  constexpr const char* kCompletions = "/v1/completions";
  EXPECT_GE(shared(kCompletions, {{"prompt", text}}, {{"prompt", text + "y"}}), 7U);
  EXPECT_GE(shared(kCompletions, {{"prompt", text}}, {{"prompt", {text, "other"}}}), 7U);
  const std::vector<int> ids(300, 1234);
  EXPECT_GE(shared(kCompletions, {{"prompt", ids}}, {{"prompt", {ids, ids}}}), 7U);
  for (const char* body : {R"({"messages":7})", R"({"messages":[7,[]],"tools":"x"})", "{}"}) {
    ClientCall odd;
    EXPECT_FALSE(read_client_call(request_of(kChat, body), odd)) << body;
    EXPECT_TRUE(odd.prompt.empty());
  }
}

}  // namespace
}  // namespace tandem
