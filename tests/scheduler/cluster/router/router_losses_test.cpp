// Engines are lost with requests, and answers never end: the effects on others.
#include <chrono>
#include <string>

#include "tests/scheduler/cluster/router/router_fixture.h"

namespace tandem {
namespace {

using nlohmann::json;

class RouterLosses : public RouterTest {
 protected:
  RouterLosses() { options_.router.policy = "first_fit"; }
  static json whole_request() {
    json request = stream_request(3);
    request["stream"] = false;
    return request;
  }
  static StubScript stalling(int at) {
    StubScript script;
    script.stall_at = at;
    return script;
  }
};

TEST_F(RouterLosses, ARequestThatTwoEnginesDiedOfIsSentToNoThird) {
  StubEngine& first = add();
  StubEngine& second = add();
  StubEngine& third = add();
  route();
  first.set_script(stalling(0));
  second.set_script(stalling(0));
  TestClient client(port());
  client.send(http_request("POST", "/v1/completions", whole_request().dump(),
                           "X-Request-Id: poison-1\r\n"));
  ASSERT_TRUE(eventually([&] { return first.relays() == 1; }));
  first.kill();
  ASSERT_TRUE(eventually([&] { return second.relays() == 1; })) << "once it is sent on";
  second.kill();
  const ClientResponse response = client.receive();
  EXPECT_EQ(response.status, 502) << response.body;
  EXPECT_NE(response.error().find("poison-1"), std::string::npos) << response.body;
  EXPECT_EQ(third.relays(), 0);
  EXPECT_EQ(post(port(), "/v1/completions", whole_request()).status, 200) << "others are served";
}

TEST_F(RouterLosses, AStreamThatTwoEnginesDiedOfEndsWithAnError) {
  StubEngine& first = add();
  StubEngine& second = add();
  StubEngine& third = add();
  route();
  first.set_script(stalling(4));
  second.set_script(stalling(4));
  TestClient client(port());
  client.send(http_request("POST", "/v1/completions", stream_request().dump()));
  EXPECT_EQ(client.receive_head().status, 200);
  EXPECT_FALSE(client.next_event().empty());
  first.kill();
  ASSERT_TRUE(eventually([&] { return second.relays() == 1; }));
  second.kill();
  std::string last;
  for (std::string event = client.next_event(); !event.empty() && event != "[DONE]";
       event = client.next_event()) {
    last = event;
  }
  EXPECT_EQ(json::parse(last)["error"]["code"], "engines_lost") << last;
  EXPECT_EQ(third.relays(), 0);
}

// The connection breaks, but the engine lives: nothing suggests that the request is the cause.
TEST_F(RouterLosses, ARequestGoesOnWhereTheFirstEngineHasOnlyLostItsConnection) {
  StubEngine& breaking = add();
  StubEngine& second = add();
  StubEngine& third = add();
  route();
  StubScript breaks;
  breaks.break_at = 4;
  breaking.set_script(breaks);
  second.set_script(stalling(4));
  TestClient client(port());
  client.send(http_request("POST", "/v1/completions", stream_request().dump()));
  EXPECT_EQ(client.receive_head().status, 200);
  ASSERT_TRUE(eventually([&] { return second.relays() == 1; }));
  ASSERT_TRUE(eventually([&] { return stats()["engines"][0]["accepts"].get<bool>(); }));
  breaking.set_script({});
  second.kill();
  std::string last;
  for (std::string event = client.next_event(); !event.empty() && event != "[DONE]";
       event = client.next_event()) {
    last = event;
  }
  EXPECT_EQ(json::parse(last)["choices"][0]["finish_reason"], "length") << last;
  EXPECT_GE(third.relays() + breaking.relays(), 2);
}

TEST_F(RouterLosses, AnAnswerWithoutAnEndIsAskedOfAnotherEngine) {
  options_.router.limits.max_unannounced_bytes = 1U << 20;
  StubEngine& endless = add();
  StubEngine& other = add();
  route();
  StubScript script;
  script.endless = true;
  endless.set_script(script);
  EXPECT_EQ(post(port(), "/v1/completions", whole_request()).status, 200);
  EXPECT_EQ(endless.relays(), 1);
  EXPECT_EQ(other.relays(), 1);
  other.set_script(script);
  const ClientResponse refused = post(port(), "/v1/completions", whole_request());
  EXPECT_EQ(refused.status, 502);
  EXPECT_EQ(json::parse(refused.body)["error"]["code"], "answer_too_long");
}

// The engine's statistics stop, and resume a moment later.
TEST_F(RouterLosses, ARequestWaitsForTheLastEngineWhoseStatisticsWereCut) {
  options_.router.watch.heartbeat = std::chrono::milliseconds(300);
  StubEngine& engine = add();
  route();
  engine.set_silent(true);
  ASSERT_TRUE(eventually([&] { return up() == 0; }));
  TestClient client(port());
  client.send(http_request("POST", "/v1/completions", whole_request().dump()));
  ASSERT_TRUE(eventually([&] { return stats()["waiting"] == 1; }));
  engine.set_silent(false);
  EXPECT_EQ(client.receive().status, 200);
}

TEST_F(RouterLosses, ARequestIsToldSoonThatTheLastEngineIsGone) {
  options_.router.limits.lost_patience = std::chrono::milliseconds(300);
  StubEngine& engine = add();
  route();
  engine.kill();
  ASSERT_TRUE(eventually([&] { return up() == 0; }));
  EXPECT_EQ(post(port(), "/v1/completions", whole_request()).status, 503);
}

}  // namespace
}  // namespace tandem
