// The answers of completions and chat, whole and streamed.
#include <gmock/gmock.h>

#include "server_fixture.h"

namespace tandem {
namespace {

using nlohmann::json;
using CompletionsTest = ServerTest;

constexpr const char* kCompletionsPath = "/v1/completions";
constexpr const char* kChatPath = "/v1/chat/completions";

json chat_body() {
  return {{"model", "base"}, {"messages", {{{"role", "user"}, {"content", "Hi"}}}}};
}

TEST_F(CompletionsTest, AnswersAPromptInOpenAisShape) {
  start();
  const auto response = post(port, kCompletionsPath, {{"model", "base"}, {"prompt", "Say"}});
  ASSERT_EQ(response.status, 200) << response.body;
  const json answer = response.json();
  EXPECT_EQ(answer["object"], "text_completion");
  EXPECT_EQ(answer["model"], "base");
  EXPECT_EQ(answer["id"].get<std::string>().substr(0, 5), "cmpl-");
  EXPECT_GT(answer["created"], 1700000000);
  ASSERT_EQ(answer["choices"].size(), 1U);
  EXPECT_EQ(answer["choices"][0]["text"], "Hello there");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(answer["choices"][0]["logprobs"], nullptr);
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 4);  // <s> and three bytes
  EXPECT_EQ(answer["usage"]["completion_tokens"], 2);
  EXPECT_EQ(answer["usage"]["total_tokens"], 6);
  EXPECT_EQ(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 1);
  EXPECT_EQ(
      answer["tandem"],
      json({{"ttft_s", 0.25}, {"queue_s", 0.125}, {"adapter_tier", nullptr}, {"cpu_layers", 0}}));
}

TEST_F(CompletionsTest, SendsAnAdaptersRequestToTheAdapter) {
  start();
  ASSERT_TRUE(service.load_adapter("poet", "/a/poet", false, false).ok());
  const auto response = post(port, kCompletionsPath, {{"model", "poet"}, {"prompt", "Say"}});
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(service.run(0)->request.adapter, "poet");
  EXPECT_EQ(response.json()["model"], "poet");
  EXPECT_EQ(response.json()["tandem"]["adapter_tier"], "host");
  EXPECT_EQ(response.json()["tandem"]["cpu_layers"], 3);
}

TEST_F(CompletionsTest, SendsARequestToSeveralAdaptersTogether) {
  start();
  for (const char* name : {"poet", "cook", "org/two+three"}) {
    ASSERT_TRUE(service.load_adapter(name, std::string("/a/") + name, false, false).ok());
  }
  const std::vector<AdapterPart> both = {{"poet"}, {"cook"}};
  const auto named = post(port, kCompletionsPath, {{"model", "poet+cook"}, {"prompt", {"a", "b"}}});
  ASSERT_EQ(named.status, 200) << named.body;
  EXPECT_EQ(named.json()["model"], "poet+cook");
  for (const std::size_t run : {0U, 1U}) {
    EXPECT_EQ(service.run(run)->request.adapters, both);
    EXPECT_EQ(service.run(run)->request.adapter, "");
  }
  json chat = chat_body();
  chat["adapters"] = {{{"name", "cook"}, {"scale", -0.5}}, {{"name", "poet"}, {"scale", nullptr}}};
  const auto listed = post(port, kChatPath, chat);
  ASSERT_EQ(listed.status, 200) << listed.body;
  EXPECT_EQ(listed.json()["model"], "base");
  EXPECT_EQ(service.run(2)->request.adapters,
            (std::vector<AdapterPart>{{"cook", -0.5F}, {"poet"}}));
  const auto exact = post(port, kCompletionsPath, {{"model", "org/two+three"}, {"prompt", "a"}});
  ASSERT_EQ(exact.status, 200) << exact.body;
  EXPECT_EQ(service.run(3)->request.adapter, "org/two+three");
  EXPECT_TRUE(service.run(3)->request.adapters.empty());
  EXPECT_EQ(post(port, "/tokenize", {{"model", "cook+poet"}, {"prompt", "a"}}).status, 200);
}

TEST_F(CompletionsTest, RefusesSeveralAdaptersWithoutMeaning) {
  start();
  for (const char* name : {"poet", "cook"}) {
    ASSERT_TRUE(service.load_adapter(name, "/a", false, false).ok());
  }
  const auto refusal = [&](json fields) {
    fields["prompt"] = "a";
    return post(port, kCompletionsPath, fields);
  };
  for (const char* model : {"poet+", "+poet", "poet++cook", "+", "poet+nobody",
                            "poet+poet+poet+poet+poet+poet+poet+poet+poet"}) {
    EXPECT_EQ(refusal({{"model", model}}).status, 404) << model;
  }
  EXPECT_THAT(refusal({{"model", "poet+nobody"}}).body, ::testing::HasSubstr("'nobody'"));
  EXPECT_EQ(refusal({{"model", "poet+base"}}).status, 400);
  const json poet{{"name", "poet"}};
  for (const json& adapters :
       {json::array(), json("poet"), json{"poet"}, json::array({{{"scale", 1}}}),
        json::array({{{"name", ""}}}), json::array({{{"name", "poet"}, {"scale", "1"}}}),
        json::array({{{"name", "poet"}, {"scale", 1e39}}}),
        json::array({{{"name", "poet"}, {"weight", 1}}}), json(std::vector<json>(9, poet))}) {
    const auto response = refusal({{"adapters", adapters}});
    EXPECT_EQ(response.status, 400) << adapters;
    EXPECT_EQ(response.error("param"), "adapters");
  }
  const auto unknown = refusal({{"adapters", {poet, {{"name", "nobody"}}}}});
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.error("param"), "adapters");
  const auto twice = refusal({{"model", "cook"}, {"adapters", {poet}}});
  EXPECT_EQ(twice.status, 400);
  EXPECT_EQ(twice.error("param"), "adapters");
  service.submit_status = invalid("adapters 'poet' and 'cook' have no sum");
  const auto sum = refusal({{"model", "poet+cook"}, {"stream", true}});
  EXPECT_EQ(sum.status, 400);
  EXPECT_THAT(sum.body, ::testing::HasSubstr("'poet' and 'cook' have no sum"));
}

TEST_F(CompletionsTest, NumbersChoicesByPromptThenByContinuation) {
  service.script = [](FakeRun& run) {
    const auto prompt = static_cast<char>(run.request.prompt.back());
    for (std::int32_t i = run.request.n - 1; i >= 0; --i) {
      run.say(std::string(1, prompt) + std::to_string(i), i);
      run.finish(FinishReason::length, i);
    }
  };
  start();
  const auto response =
      post(port, kCompletionsPath, {{"prompt", {"a", "b", "c"}}, {"n", 2}, {"max_tokens", 5}});
  ASSERT_EQ(response.status, 200) << response.body;
  const json answer = response.json();
  const json choices = answer["choices"];
  ASSERT_EQ(choices.size(), 6U);
  const std::vector<std::string> expected{"a0", "a1", "b0", "b1", "c0", "c1"};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(choices[i]["index"], i);
    EXPECT_EQ(choices[i]["text"], expected[i]);
    EXPECT_EQ(choices[i]["finish_reason"], "length");
  }
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 6);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 12);
}

TEST_F(CompletionsTest, TakesTokenIdsAsThePrompt) {
  start();
  ASSERT_EQ(post(port, kCompletionsPath, {{"prompt", {1, 2, 3}}}).status, 200);
  EXPECT_EQ(service.run(0)->request.prompt, (std::vector<TokenId>{1, 2, 3}));
  const auto two = post(port, kCompletionsPath, {{"prompt", {{7, 8}, {9}}}});
  ASSERT_EQ(two.status, 200);
  EXPECT_EQ(two.json()["choices"].size(), 2U);
  EXPECT_EQ(service.run(1)->request.prompt, (std::vector<TokenId>{7, 8}));
  EXPECT_EQ(service.run(2)->request.prompt, (std::vector<TokenId>{9}));
}

TEST_F(CompletionsTest, DrawAsTheCheckpointSaysWhereTheRequestSaysNothing) {
  start(false);
  ServedModel model{"base", "/models/base", 64, 8, &service, &text, tool_format};
  model.sampling.temperature = 0.3;
  model.sampling.top_k = 7;
  server->attach(model);
  const json chat = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}, {"temperature", 0.9}};
  ASSERT_EQ(post(port, kCompletionsPath, {{"prompt", "p"}, {"top_k", nullptr}}).status, 200);
  ASSERT_EQ(post(port, "/v1/chat/completions", chat).status, 200);
  EXPECT_EQ(service.run(0)->request.sampling.temperature, 0.3);
  EXPECT_EQ(service.run(0)->request.sampling.top_k, 7);
  EXPECT_EQ(service.run(1)->request.sampling.temperature, 0.9);
  EXPECT_EQ(service.run(1)->request.sampling.top_k, 7);
}

OutputDelta scored(std::string text, std::vector<TokenLogprob> logprobs) {
  OutputDelta delta;
  delta.text = std::move(text);
  for (const TokenLogprob& each : logprobs) delta.tokens.push_back(each.token);
  delta.logprobs = std::move(logprobs);
  return delta;
}

TEST_F(CompletionsTest, TellsLogProbabilitiesInTheListsOfCompletions) {
  service.script = [](FakeRun& run) {
    run.push(scored("x", {{'x', -0.5F, {{'x', -0.5F}, {'y', -1.5F}}}}));
    run.push(scored("", {{0xC3, -2.0F, {{'z', -0.25F}}}}));  // half a character
    run.push(scored("é", {{0xA9, -3.0F, {}}}));
    run.finish();
  };
  start();
  const auto response = post(port, kCompletionsPath, {{"prompt", "p"}, {"logprobs", 2}});
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(service.run(0)->request.num_logprobs, 2);
  const json answer = response.json();
  const json logprobs = answer["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"], json({"x", "bytes:\\xc3", "bytes:\\xa9"}));
  EXPECT_EQ(logprobs["token_logprobs"], json({-0.5, -2.0, -3.0}));
  EXPECT_EQ(logprobs["text_offset"], json({0, 1, 2}));
  EXPECT_EQ(logprobs["top_logprobs"][0], json({{"x", -0.5}, {"y", -1.5}}));
  EXPECT_EQ(logprobs["top_logprobs"][1], json({{"bytes:\\xc3", -2.0}, {"z", -0.25}}));
}

TEST_F(CompletionsTest, EchoesThePromptWithItsLogProbabilities) {
  service.script = [](FakeRun& run) {
    OutputDelta other;  // arrives first, but has to wait for the prompt's scores
    other.index = 1;
    other.text = "B";
    run.push(other);
    run.finish(FinishReason::length, 1);
    OutputDelta first;
    first.text = "A";
    first.prompt_logprobs = {{'h', -1.0F, {}}, {'i', -2.0F, {}}};
    run.push(first);
    run.finish(FinishReason::length, 0);
  };
  start();
  const json body{{"prompt", "hi"}, {"echo", true}, {"logprobs", 0}, {"n", 2}};
  const auto response = post(port, kCompletionsPath, body);
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_TRUE(service.run(0)->request.prompt_logprobs);
  const json answer = response.json();
  const json choices = answer["choices"];
  EXPECT_EQ(choices[0]["text"], "hiA");
  EXPECT_EQ(choices[1]["text"], "hiB");
  for (const json& choice : choices) {
    EXPECT_EQ(choice["logprobs"]["tokens"], json({"<s>", "h", "i"}));
    EXPECT_EQ(choice["logprobs"]["token_logprobs"], json({nullptr, -1.0, -2.0}));
    EXPECT_EQ(choice["logprobs"]["top_logprobs"][0], nullptr);
    // The text does not include the token that the tokenizer has put first.
    EXPECT_EQ(choice["logprobs"]["text_offset"], json({0, 0, 1}));
  }
  json ids = body;
  ids["prompt"] = {ByteCodec::kBos, 'h', 'i'};
  const json of_ids = post(port, kCompletionsPath, ids).json();
  EXPECT_EQ(of_ids["choices"][0]["text"], "<s>hiA");
  EXPECT_EQ(of_ids["choices"][0]["logprobs"]["text_offset"], json({0, 3, 4}));
  // In the stream each choice's first chunk starts with the prompt.
  json streamed = body;
  streamed["stream"] = true;
  std::map<int, std::string> texts;
  for (const std::string& event : events_of(post(port, kCompletionsPath, streamed).body)) {
    if (event == "[DONE]") continue;
    const json chunk = json::parse(event);
    texts[chunk["choices"][0]["index"]] += chunk["choices"][0]["text"];
  }
  EXPECT_EQ(texts, (std::map<int, std::string>{{0, "hiA"}, {1, "hiB"}}));
}

TEST_F(CompletionsTest, ScoresAPromptWithoutNewTokens) {
  service.script = [](FakeRun& run) {
    OutputDelta only;
    only.prompt_logprobs = {{'h', -1.0F, {}}};
    only.finish = FinishReason::length;
    run.push(only);
  };
  start();
  const auto response = post(port, kCompletionsPath,
                             {{"prompt", "h"}, {"echo", true}, {"logprobs", 1}, {"max_tokens", 0}});
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(service.run(0)->request.max_tokens, 0);
  EXPECT_EQ(response.json()["choices"][0]["text"], "h");
  EXPECT_EQ(response.json()["choices"][0]["logprobs"]["tokens"], json({"<s>", "h"}));
}

TEST_F(CompletionsTest, AnswersAConversation) {
  start();
  const auto response = post(port, kChatPath, chat_body());
  ASSERT_EQ(response.status, 200) << response.body;
  const json answer = response.json();
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["id"].get<std::string>().substr(0, 9), "chatcmpl-");
  EXPECT_EQ(answer["choices"][0]["message"],
            json({{"role", "assistant"}, {"content", "Hello there"}}));
  const auto run = service.run(0);
  EXPECT_EQ(text.decode(run->request.prompt, false), "user: Hi\nassistant:");
  EXPECT_EQ(run->request.max_tokens, 64 - static_cast<int>(run->request.prompt.size()));
}

TEST_F(CompletionsTest, TellsLogProbabilitiesInTheListOfChat) {
  service.script = [](FakeRun& run) {
    run.push(scored("x", {{'x', -0.5F, {{'x', -0.5F}, {'y', -1.5F}}}}));
    run.finish();
  };
  start();
  json body = chat_body();
  body["logprobs"] = true;
  body["top_logprobs"] = 2;
  const auto response = post(port, kChatPath, body);
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(service.run(0)->request.num_logprobs, 2);
  const json expected = json::parse(R"({"content": [{"token": "x", "logprob": -0.5, "bytes": [120],
      "top_logprobs": [{"token": "x", "logprob": -0.5, "bytes": [120]},
                       {"token": "y", "logprob": -1.5, "bytes": [121]}]}]})");
  EXPECT_EQ(response.json()["choices"][0]["logprobs"], expected);
}

TEST_F(CompletionsTest, StreamsEventsUntilDone) {
  start();
  const auto response =
      post(port, kCompletionsPath,
           {{"prompt", "p"}, {"stream", true}, {"stream_options", {{"include_usage", true}}}},
           "Accept-Encoding: gzip, deflate, br\r\n");
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_TRUE(response.complete);
  EXPECT_EQ(response.headers.at("content-type"), "text/event-stream");
  EXPECT_FALSE(response.headers.contains("content-encoding"));
  const auto events = events_of(response.body);
  ASSERT_EQ(events.size(), 5U) << response.body;
  EXPECT_EQ(events.back(), "[DONE]");
  std::vector<json> chunks;
  for (std::size_t i = 0; i + 1 < events.size(); ++i) chunks.push_back(json::parse(events[i]));
  EXPECT_EQ(chunks[0]["choices"][0]["text"], "Hello");
  EXPECT_EQ(chunks[0]["choices"][0]["finish_reason"], nullptr);
  EXPECT_EQ(chunks[0]["usage"], nullptr);
  EXPECT_EQ(chunks[1]["choices"][0]["text"], " there");
  EXPECT_EQ(chunks[2]["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(chunks[3]["choices"], json::array());
  EXPECT_EQ(chunks[3]["usage"]["completion_tokens"], 2);
  EXPECT_EQ(chunks[3]["tandem"]["ttft_s"], 0.25);
  for (const json& chunk : chunks) EXPECT_EQ(chunk["id"], chunks[0]["id"]);
}

TEST_F(CompletionsTest, TellsTheUsageSoFarInEachChunkWhenAskedTo) {
  service.script = [](FakeRun& run) {
    const auto say = [&run](std::vector<TokenId> tokens, std::string words) {
      OutputDelta delta;
      delta.tokens = std::move(tokens);
      delta.text = std::move(words);
      run.push(std::move(delta));
    };
    say({'a'}, "a");
    say({'b'}, "");  // half a character: no chunk, but it is counted
    say({'c', 'd'}, "cd");
    run.finish();
  };
  start();
  const auto chunks_of = [this](const json& asked) {
    std::vector<json> chunks;
    const json body = {{"prompt", "p"}, {"stream", true}, {"stream_options", asked}};
    for (const std::string& event : events_of(post(port, kCompletionsPath, body).body)) {
      if (event != "[DONE]") chunks.push_back(json::parse(event));
    }
    return chunks;
  };
  const auto each = chunks_of({{"include_usage", true}, {"continuous_usage_stats", true}});
  ASSERT_EQ(each.size(), 4U);  // two with text, the finish reason, the usage
  const json& last = each.back()["usage"];
  const std::vector<std::int64_t> told = {1, 4, 4};
  for (std::size_t i = 0; i < told.size(); ++i) {
    const json& usage = each[i]["usage"];
    ASSERT_TRUE(usage.is_object()) << each[i];
    EXPECT_EQ(usage["prompt_tokens"], last["prompt_tokens"]);
    EXPECT_EQ(usage["completion_tokens"], told[i]);
    EXPECT_EQ(usage["total_tokens"], usage["prompt_tokens"].get<std::int64_t>() + told[i]);
  }
  for (const json& chunk : chunks_of({{"continuous_usage_stats", true}})) {
    EXPECT_FALSE(chunk.contains("usage")) << chunk;
  }
}

TEST_F(CompletionsTest, StreamsAChatWithTheRoleFirst) {
  start();
  json body = chat_body();
  body["stream"] = true;
  const auto events = events_of(post(port, kChatPath, body).body);
  ASSERT_EQ(events.size(), 4U);
  const json first = json::parse(events[0]);
  EXPECT_EQ(first["object"], "chat.completion.chunk");
  EXPECT_EQ(first["choices"][0]["delta"], json({{"role", "assistant"}, {"content", "Hello"}}));
  EXPECT_FALSE(first.contains("usage"));
  EXPECT_EQ(json::parse(events[1])["choices"][0]["delta"], json({{"content", " there"}}));
  const json last = json::parse(events[2]);
  EXPECT_EQ(last["choices"][0]["delta"], json::object());
  EXPECT_EQ(last["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(last["tandem"]["queue_s"], 0.125);
}

TEST_F(CompletionsTest, StreamsEachTokenWhenItComes) {
  service.script = [](FakeRun&) {};
  start();
  TestCall client(port, "POST", kCompletionsPath, json{{"prompt", "p"}, {"stream", true}}.dump());
  const auto run = service.run(0);
  EXPECT_EQ(client.receive_head().status, 200);
  for (const char* word : {"one", "two", "three"}) {
    run->say(word);  // only after the previous one was read
    EXPECT_EQ(json::parse(client.next_event())["choices"][0]["text"], word);
  }
  run->finish();
  EXPECT_EQ(json::parse(client.next_event())["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(client.next_event(), "[DONE]");
  EXPECT_EQ(client.next_event(), "");
}

TEST_F(CompletionsTest, InterleavesTheStreamsOfSeveralPrompts) {
  service.script = [](FakeRun&) {};
  start();
  TestCall client(port, "POST", kCompletionsPath,
                  json{{"prompt", {"a", "b"}}, {"stream", true}}.dump());
  const auto first = service.run(0);
  const auto second = service.run(1);
  EXPECT_EQ(client.receive_head().status, 200);
  const auto next_choice = [&] { return json::parse(client.next_event())["choices"][0]; };
  second->say("B1");
  EXPECT_EQ(next_choice()["index"], 1);
  first->say("A1");
  EXPECT_EQ(next_choice()["index"], 0);
  second->finish();
  EXPECT_EQ(next_choice()["index"], 1);
  first->say("A2");
  EXPECT_EQ(next_choice()["text"], "A2");
  first->finish();
  EXPECT_EQ(next_choice()["finish_reason"], "stop");
  EXPECT_EQ(client.next_event(), "[DONE]");
}

TEST_F(CompletionsTest, TellsAFailureInTheMiddleOfAStream) {
  service.script = [](FakeRun& run) {
    run.say("so far");
    run.fail(Status(StatusCode::internal, "secret of the inside"));
  };
  start();
  const auto events =
      events_of(post(port, kCompletionsPath, {{"prompt", "p"}, {"stream", true}}).body);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(json::parse(events[1])["error"]["type"], "server_error");
  EXPECT_EQ(events[1].find("secret"), std::string::npos);
  EXPECT_EQ(events[2], "[DONE]");
}

TEST_F(CompletionsTest, StreamsToHttp10WithoutChunks) {
  start();
  TestClient client(port);
  const std::string body = json{{"prompt", "p"}, {"stream", true}}.dump();
  client.send(
      "POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body);
  const auto response = client.receive();
  EXPECT_FALSE(response.headers.contains("transfer-encoding"));
  const auto events = events_of(response.body);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back(), "[DONE]");
}

TEST_F(CompletionsTest, ServesManyRequestsOnOneConnection) {
  start();
  TestClient client(port);
  for (int i = 0; i < 50; ++i) {
    const json body{{"prompt", "p"}, {"stream", i % 2 == 1}};
    ASSERT_TRUE(client.send(http_request("POST", kCompletionsPath, body.dump()))) << i;
    ASSERT_EQ(client.receive().status, 200) << i;
  }
}

}  // namespace
}  // namespace tandem
