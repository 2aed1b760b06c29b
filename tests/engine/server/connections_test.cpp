// Real clients: many, slow, or gone; and the server's end.
#include <atomic>
#include <future>
#include <thread>
#include <tuple>

#include "server_fixture.h"

namespace tandem {
namespace {

using nlohmann::json;
using ConnectionsTest = ServerTest;

std::string streaming_request() {
  return http_request("POST", "/v1/completions", json{{"prompt", "p"}, {"stream", true}}.dump());
}
std::string plain_request() {
  return http_request("POST", "/v1/completions", json{{"prompt", "p"}}.dump());
}
void no_answer(FakeRun&) {}

TEST_F(ConnectionsTest, CancelsAStreamWhoseClientGoesAway) {
  service.script = no_answer;
  start();
  TestClient client(port);
  client.send(streaming_request());
  const auto run = service.run(0);
  run->say("first");
  EXPECT_EQ(client.receive_head().status, 200);
  EXPECT_NE(client.next_event(), "");
  client.close();
  run->wait_cancelled();  // although nothing more is written
}

TEST_F(ConnectionsTest, CancelsAWholeAnswerWhoseClientGoesAway) {
  service.script = no_answer;
  start();
  TestClient client(port);
  client.send(plain_request());
  const auto run = service.run(0);
  client.close();
  run->wait_cancelled();
}

TEST_F(ConnectionsTest, CancelsEveryPromptOfACallWhoseClientGoesAway) {
  service.script = no_answer;
  start();
  TestClient client(port);
  client.send(http_request("POST", "/v1/completions", json{{"prompt", {"a", "b", "c"}}}.dump()));
  service.run(2);
  client.close();
  for (std::size_t i = 0; i < 3; ++i) service.run(i)->wait_cancelled();
}

TEST_F(ConnectionsTest, CancelsTheOthersWhenOnePromptFails) {
  service.script = [](FakeRun& run) {
    if (run.request.prompt.back() == 'b') run.fail(Status(StatusCode::internal, "broken"));
  };
  start();
  const auto response = post(port, "/v1/completions", {{"prompt", {"a", "b"}}});
  EXPECT_EQ(response.status, 500);
  service.run(0)->wait_cancelled();
}

TEST_F(ConnectionsTest, AnswersAClientThatOnlyClosesItsSendingSide) {
  service.script = no_answer;
  start();
  TestClient whole(port);
  whole.send(plain_request());
  whole.end_sending();
  TestClient streamed(port);
  service.run(0);
  streamed.send(streaming_request());
  streamed.end_sending();
  EXPECT_EQ(whole.interim_line(), "HTTP/1.1 100 Continue");  // the server has read the head
  EXPECT_EQ(streamed.receive_head().status, 200);
  EXPECT_EQ(streamed.next_chunk(), ":\n\n");
  for (std::size_t i = 0; i < 2; ++i) {
    service.run(i)->say("late");
    service.run(i)->finish();
  }
  EXPECT_EQ(whole.receive().json()["choices"][0]["text"], "late");
  EXPECT_EQ(json::parse(streamed.next_event())["choices"][0]["text"], "late");
  streamed.next_event();
  EXPECT_EQ(streamed.next_event(), "[DONE]");
}

TEST_F(ConnectionsTest, AStreamThatWaitsSendsChunksThatSayNothing) {
  service.script = no_answer;
  options.silence = std::chrono::milliseconds(20);
  start();
  const json messages = {{{"role", "user"}, {"content", "x"}}};
  const json usage = {{"include_usage", true}};
  const std::tuple<const char*, json, const char*, json> cases[] = {
      {"/v1/completions", {{"prompt", "p"}, {"stream", true}}, "text", ""},
      {"/v1/chat/completions",
       {{"messages", messages}, {"stream", true}, {"stream_options", usage}},
       "delta",
       json::object()}};
  std::size_t runs = 0;
  for (const auto& [path, body, field, nothing] : cases) {
    TestClient client(port);
    client.send(http_request("POST", path, body.dump()));
    const auto run = service.run(runs++);
    EXPECT_EQ(client.receive_head().status, 200);
    const json silent = json::parse(client.next_event());
    ASSERT_EQ(silent["choices"].size(), 1U);
    const json& choice = silent["choices"][0];
    EXPECT_EQ(choice["index"], 0);
    EXPECT_EQ(choice[field], nothing);
    EXPECT_TRUE(choice["finish_reason"].is_null());
    EXPECT_EQ(silent.contains("usage"), body.contains("stream_options"));
    run->say("word");
    run->finish();
    json event = silent;
    while (event["choices"][0][field] == nothing) event = json::parse(client.next_event());
    EXPECT_EQ(event["id"], silent["id"]);
    EXPECT_EQ(event["object"], silent["object"]);
    EXPECT_NE(event["choices"][0][field].dump().find("word"), std::string::npos);
    std::string last;
    for (std::string next = client.next_event(); !next.empty(); next = client.next_event()) {
      last = next;
    }
    EXPECT_EQ(last, "[DONE]");
  }
}

TEST_F(ConnectionsTest, LeavesNewsWithTheServiceThatAClientDoesNotRead) {
  service.script = no_answer;
  start();
  TestClient client(port, 4096);
  client.send(streaming_request());
  const auto run = service.run(0);
  const std::string megabyte(1U << 20, 'x');
  for (int i = 0; i < 64; ++i) run->say(megabyte);  // more than the sockets' buffers hold
  run->finish();
  client.receive_head();
  client.next_event();
  EXPECT_GT(run->unread(), 0U);
  EXPECT_TRUE(client.receive_chunks().ends_with("data: [DONE]\n\n"));
}

TEST_F(ConnectionsTest, AnswersCallsWhileAnAdapterLoads) {
  options.adapter_roots = {"."};
  std::promise<void> go;
  service.on_load = [gone = go.get_future().share()] { gone.wait(); };
  start();
  auto loaded = std::async(std::launch::async, [&] {
    return post(port, "/v1/load_lora_adapter", {{"lora_name", "a"}, {"lora_path", "."}});
  });
  for (int i = 0; i < 20; ++i) {  // more than there are worker threads
    EXPECT_EQ(post(port, "/v1/completions", {{"prompt", "p"}}).status, 200);
  }
  go.set_value();
  EXPECT_EQ(loaded.get().status, 200);
}

TEST_F(ConnectionsTest, GivesUpAStreamWhoseClientReadsNothing) {
  service.script = no_answer;
  options.client_timeout = std::chrono::milliseconds(100);
  start();
  TestClient client(port, 4096);
  client.send(streaming_request());
  const auto run = service.run(0);
  const std::string megabyte(1U << 20, 'x');
  for (int i = 0; i < 32; ++i) run->say(megabyte);  // more than the sockets' buffers hold
  run->wait_cancelled();
}

TEST_F(ConnectionsTest, GivesUpARequestThatNeverEnds) {
  options.client_timeout = std::chrono::milliseconds(100);
  start();
  TestClient head(port);
  head.send("POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Ty");
  TestClient body(port);
  body.send(
      "POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
      "Content-Length: 100\r\n\r\n{");
  EXPECT_EQ(body.receive().status, 408);
  EXPECT_EQ(head.receive().status, 408);
  EXPECT_TRUE(head.at_end());
}

TEST_F(ConnectionsTest, ClosesAnIdleConnection) {
  options.keep_alive = std::chrono::milliseconds(500);
  start();
  TestClient client(port);
  client.send(http_request("GET", "/health"));
  EXPECT_EQ(client.receive().status, 200);
  EXPECT_TRUE(client.at_end());
}

TEST_F(ConnectionsTest, Serves256StreamsAtOnce) {
  constexpr int kStreams = 256;
  service.script = no_answer;
  start();
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < kStreams; ++i) clients.push_back(std::make_unique<TestClient>(port));
  for (const auto& client : clients) {
    ASSERT_TRUE(client->connected());
    ASSERT_TRUE(client->send(streaming_request()));
  }
  service.run(kStreams - 1);  // all run at once
  for (int i = 0; i < kStreams; ++i) {
    service.run(static_cast<std::size_t>(i))->say("word");
  }
  for (const auto& client : clients) {
    ASSERT_EQ(client->receive_head().status, 200);
    EXPECT_EQ(json::parse(client->next_event())["choices"][0]["text"], "word");
  }
  for (int i = 0; i < kStreams; ++i) service.run(static_cast<std::size_t>(i))->finish();
  for (const auto& client : clients) {
    EXPECT_EQ(json::parse(client->next_event())["choices"][0]["finish_reason"], "stop");
    EXPECT_EQ(client->next_event(), "[DONE]");
  }
}

TEST_F(ConnectionsTest, TakesABurstOfConnectionsFromManyThreads) {
  start();
  std::atomic<int> answered = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&] {
      std::vector<std::unique_ptr<TestClient>> clients;
      for (int i = 0; i < 16; ++i) clients.push_back(std::make_unique<TestClient>(port));
      for (const auto& client : clients) client->send(streaming_request());
      for (const auto& client : clients) {
        const auto response = client->receive();
        if (response.status == 200 && response.body.ends_with("data: [DONE]\n\n")) ++answered;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answered, 256);
}

TEST_F(ConnectionsTest, Tells503BeyondTheLimitOfConnections) {
  service.script = no_answer;
  options.max_connections = 4;
  start();
  std::vector<std::unique_ptr<TestClient>> clients;
  for (std::size_t i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<TestClient>(port));
    clients.back()->send(streaming_request());
    service.run(i);
  }
  for (int i = 0; i < 40; ++i) {  // more than the server refuses without hurry
    TestClient extra(port);
    const auto response = extra.receive();
    EXPECT_EQ(response.status, 503);
    EXPECT_EQ(response.error("code"), "overloaded");
    EXPECT_TRUE(response.headers.contains("retry-after"));
  }
  for (std::size_t i = 0; i < 4; ++i) service.run(i)->finish();
  for (const auto& client : clients) EXPECT_EQ(client->receive().status, 200);
}

TEST_F(ConnectionsTest, DrainsWithRunningAnswersFinished) {
  service.script = no_answer;
  start();
  TestClient streaming(port);
  streaming.send(streaming_request());
  TestClient whole(port);
  whole.send(plain_request());
  service.run(1);
  TestClient idle(port);
  idle.send(http_request("GET", "/health"));
  EXPECT_EQ(idle.receive().status, 200);

  server->drain();
  const auto refused = post(port, "/v1/completions", {{"prompt", "late"}});
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.error("code"), "draining");
  EXPECT_EQ(refused.headers.at("retry-after"), "2");
  EXPECT_EQ(refused.headers.at("connection"), "close");
  EXPECT_EQ(get(port, "/ready").status, 503);
  EXPECT_EQ(get(port, "/health").status, 200);

  auto drained = std::async(std::launch::async,
                            [&] { return server->drain_and_stop(std::chrono::minutes(1)); });
  for (std::size_t i = 0; i < 2; ++i) {
    service.run(i)->say("to the end");
    service.run(i)->finish();
  }
  EXPECT_TRUE(streaming.receive().body.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(whole.receive().json()["choices"][0]["text"], "to the end");
  EXPECT_TRUE(drained.get());
  EXPECT_TRUE(idle.at_end());
}

TEST_F(ConnectionsTest, CutsWhatDoesNotEndWithinTheDrainsTime) {
  service.script = no_answer;
  start();
  TestClient client(port);
  client.send(streaming_request());
  const auto run = service.run(0);
  TestClient whole(port);
  whole.send(plain_request());
  service.run(1);
  EXPECT_FALSE(server->drain_and_stop(std::chrono::milliseconds(10)));
  run->wait_cancelled();
  // The stream ends with an error that gives the reason.
  EXPECT_EQ(client.receive_head().status, 200);
  const json error = json::parse(client.next_event());
  EXPECT_EQ(error["error"]["code"], "draining");
  EXPECT_EQ(client.next_event(), "[DONE]");
  EXPECT_EQ(whole.receive().error("code"), "draining");
}

TEST_F(ConnectionsTest, StopsADrainThatTakesTooLongForSomebody) {
  service.script = no_answer;
  start();
  TestClient client(port);
  client.send(streaming_request());
  service.run(0);
  auto drained =
      std::async(std::launch::async, [&] { return server->drain_and_stop(std::chrono::hours(1)); });
  server->stop();
  EXPECT_FALSE(drained.get());
}

TEST_F(ConnectionsTest, StartsOnATakenPortWithAnError) {
  start();
  ServerOptions second;
  second.port = port;
  auto other = Server::create(second);
  ASSERT_TRUE(other.ok());
  const Status status = (*other)->start();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find(std::to_string(port)), std::string::npos);
}

TEST_F(ConnectionsTest, RefusesOptionsThatMakeNoSense) {
  const auto refuses = [](auto change, const char* word) {
    ServerOptions wrong;
    change(wrong);
    const auto made = Server::create(wrong);
    ASSERT_FALSE(made.ok()) << word;
    EXPECT_NE(made.status().message().find(word), std::string::npos) << made.status().message();
  };
  refuses([](ServerOptions& o) { o.port = 70000; }, "port");
  refuses([](ServerOptions& o) { o.max_connections = 0; }, "connections");
  refuses([](ServerOptions& o) { o.max_body_bytes = 1; }, "body");
  refuses([](ServerOptions& o) { o.api_key = "two words"; }, "API key");
  refuses([](ServerOptions& o) { o.adapter_roots = {"/no/such/folder"}; }, "/no/such/folder");
}

TEST_F(ConnectionsTest, StopsTwiceAndBeforeItStarted) {
  auto made = Server::create({});
  ASSERT_TRUE(made.ok());
  (*made)->stop();
  start();
  server->stop();
  server->stop();
}

}  // namespace
}  // namespace tandem
