// Streams through the router over real sockets: passed on, continued, ended.
#include <chrono>
#include <random>
#include <string>

#include "tests/scheduler/cluster/router/router_fixture.h"
#include "tests/support/test_seed.h"

namespace tandem {
namespace {

using nlohmann::json;

TEST_F(RouterTest, PassesAStreamOnWithoutTheRoutersComments) {
  StubEngine& engine = add();
  route();
  const ClientResponse response = post(port(), "/v1/completions", stream_request(4));
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.headers.at("content-type"), "text/event-stream");
  EXPECT_EQ(response.body.find(":tokens"), std::string::npos);
  const auto events = events_of(response.body);
  ASSERT_EQ(events.size(), 4U);  // the text of one of four tokens is held back
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_EQ(json::parse(events[0])["id"], engine.last_request()["id"]);
  EXPECT_EQ(engine.last_request()["request"], stream_request(4));
  EXPECT_EQ(engine.last_request()["path"], "/v1/completions");
  EXPECT_FALSE(engine.last_request().contains("sent"));
}

TEST_F(RouterTest, ContinuesABrokenStreamWhereverItBreaks) {
  StubEngine& dying = add();
  StubEngine& other = add();
  route();
  std::mt19937_64 random(test_seed());
  for (const int n : {1, 3}) {
    json request = stream_request(20);
    request["n"] = n;
    request["stream_options"] = {{"include_usage", true}};
    dying.set_script({});
    const auto whole = by_choice(stream(request));
    const int before = other.continued();
    for (int i = 0; i < 8; ++i) {
      StubScript script;
      const int at = static_cast<int>(random() % static_cast<unsigned>(20 * n));
      script.within_event = random() % 2 == 0;
      (i % 3 == 0 ? script.break_at : i % 3 == 1 ? script.move_at : script.error_at) = at;
      dying.set_script(script);
      // Either engine may come first, so half of the requests meet the script.
      EXPECT_EQ(by_choice(stream(request)), whole)
          << "n " << n << ", at " << at << ", kind " << i % 3;
      // A doubted engine gets no requests until its next report.
      ASSERT_TRUE(eventually([&] {
        const json now = stats();
        return now["engines"][0]["accepts"].get<bool>() && now["engines"][1]["accepts"].get<bool>();
      }));
    }
    EXPECT_GT(other.continued(), before);
  }
}

TEST_F(RouterTest, ContinuesWhenTheEnginesProcessDies) {
  StubEngine& dying = add();
  StubEngine& other = add();
  route();
  accept_only(dying);
  const std::string whole = stream(stream_request());
  StubScript script;
  script.stall_at = 9;
  dying.set_script(script);
  TestCall client(port(), "POST", "/v1/completions", stream_request().dump());
  ClientResponse response = client.receive_head();
  response.body = client.next_chunk();
  other.set_accepts(true);
  ASSERT_TRUE(eventually([&] { return stats()["engines"][1]["accepts"].get<bool>(); }));
  dying.kill();
  response.body += client.receive_chunks();
  response.complete = true;
  EXPECT_EQ(plain(response), whole);
  EXPECT_EQ(other.continued(), 1);
  EXPECT_TRUE(eventually([&] { return up() == 1; }));
}

TEST_F(RouterTest, MovesStreamsOffAnEngineWhoseHeartbeatStops) {
  options_.router.watch.heartbeat = std::chrono::milliseconds(400);
  StubEngine& silent = add();
  StubEngine& other = add();
  route();
  const std::string whole = stream(stream_request());
  (void)stream(stream_request());
  StubScript script;
  script.stall_at = 5;
  silent.set_script(script);
  silent.set_silent(true);
  EXPECT_EQ(stream(stream_request()), whole);
  EXPECT_EQ(stream(stream_request()), whole);
  EXPECT_GE(other.relays(), 2);
  EXPECT_TRUE(eventually([&] { return up() == 1; }));
  silent.set_script({});
  silent.set_silent(false);
  EXPECT_TRUE(eventually([&] { return up() == 2; }));
}

TEST_F(RouterTest, SaysOfASilentStreamThatItGoesOn) {
  options_.silence = std::chrono::milliseconds(20);
  StubEngine& stalling = add();
  route();
  StubScript script;
  script.stall_at = 0;
  stalling.set_script(script);
  TestClient client(port());
  client.send(http_request("POST", "/v1/completions", stream_request().dump()));
  EXPECT_EQ(client.receive_head().status, 200);
  for (int i = 0; i < 2; ++i) {
    const json silent = json::parse(client.next_event());
    EXPECT_EQ(silent["object"], "text_completion");
    EXPECT_EQ(silent["choices"][0]["text"], "");
    EXPECT_TRUE(silent["choices"][0]["finish_reason"].is_null());
  }
}

TEST_F(RouterTest, GoesOnElsewhereWhenAStreamStallsThoughTheEngineLives) {
  options_.router.limits.stall_timeout = std::chrono::milliseconds(200);
  StubEngine& stalling = add();
  StubEngine& other = add();
  route();
  StubScript script;
  script.stall_at = 3;
  stalling.set_script(script);
  const std::string one = stream(stream_request());
  EXPECT_EQ(stream(stream_request()), one);
  EXPECT_GE(other.continued(), 1);
  EXPECT_EQ(up(), 2U);
}

TEST_F(RouterTest, EndsAStreamWithAnErrorWhenNoEngineCanGoOn) {
  options_.router.limits.recover_timeout = std::chrono::milliseconds(100);
  StubEngine& engine = add();
  route();
  StubScript script;
  script.stall_at = 2;
  engine.set_script(script);
  TestCall client(port(), "POST", "/v1/completions", stream_request().dump());
  EXPECT_EQ(client.receive_head().status, 200);
  EXPECT_FALSE(client.next_event().empty());
  engine.kill();
  EXPECT_EQ(json::parse(client.next_event())["error"]["code"], "engines_failed");
  EXPECT_EQ(client.next_event(), "[DONE]");
}

TEST_F(RouterTest, CancelsUpstreamWhenTheClientGoes) {
  StubEngine& engine = add();
  route();
  StubScript script;
  script.stall_at = 2;
  engine.set_script(script);
  {
    TestCall client(port(), "POST", "/v1/completions", stream_request().dump());
    EXPECT_EQ(client.receive_head().status, 200);
    EXPECT_FALSE(client.next_chunk().empty());
  }
  EXPECT_TRUE(eventually([&] { return engine.cancelled() == 1; }));
  EXPECT_TRUE(eventually([&] { return stats()["engines"][0]["requests_of_this_router"] == 0; }));
}

TEST_F(RouterTest, TellsStreamsThatItsEndCutsOff) {
  StubEngine& stalling = add();
  route();
  StubScript script;
  script.stall_at = 3;
  stalling.set_script(script);
  TestClient client(port());
  client.send(http_request("POST", "/v1/completions", stream_request().dump()));
  EXPECT_EQ(client.receive_head().status, 200);
  EXPECT_NE(client.next_event(), "");
  EXPECT_FALSE(server_->drain_and_stop(std::chrono::milliseconds(10)));
  const std::string rest = client.receive_chunks();
  EXPECT_NE(rest.find("The router is shutting down"), std::string::npos) << rest;
  EXPECT_TRUE(rest.ends_with("data: [DONE]\n\n")) << rest;
}

}  // namespace
}  // namespace tandem
