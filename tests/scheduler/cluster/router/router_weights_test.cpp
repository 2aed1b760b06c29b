// Engines have different content under one name: a stream does not continue at an engine with other
// content.
#include <algorithm>
#include <chrono>
#include <string>

#include "tests/scheduler/cluster/router/router_fixture.h"

namespace tandem {
namespace {

using nlohmann::json;

class RouterWeights : public RouterTest {
 protected:
  static json adapter_stream() {
    json request = stream_request();
    request["model"] = "x";
    return request;
  }
  StubEngine& add_with(const std::string& base, const std::string& digest) {
    StubEngine& engine = add({{.name = "x", .digest = digest}});
    engine.set_base(base);
    return engine;
  }
  // Begins a stream at `first` and cuts it there while all other engines accept.
  json last_event_after_losing(StubEngine& first, const json& request) {
    accept_only(first);
    StubScript script;
    script.stall_at = 9;
    first.set_script(script);
    TestClient client(port());
    client.send(http_request("POST", "/v1/completions", request.dump()));
    EXPECT_EQ(client.receive_head().status, 200);
    std::string last = client.next_event();
    for (const auto& engine : engines_) engine->set_accepts(true);
    EXPECT_TRUE(eventually([&] {
      const json now = stats();
      return std::ranges::all_of(now["engines"],
                                 [](const json& each) { return each["accepts"].get<bool>(); });
    }));
    first.kill();
    for (std::string event = client.next_event(); !event.empty() && event != "[DONE]";
         event = client.next_event()) {
      last = event;
    }
    return json::parse(last);
  }
};

TEST_F(RouterWeights, AStreamGoesOnWhereTheSameContentIs) {
  options_.router.policy = "first_fit";
  StubEngine& dying = add_with("b1", "d1");
  StubEngine& other = add_with("b1", "d2");
  StubEngine& same = add_with("b1", "d1");
  route();
  const json last = last_event_after_losing(dying, adapter_stream());
  EXPECT_EQ(last["choices"][0]["finish_reason"], "length") << last;
  EXPECT_EQ(same.continued(), 1);
  EXPECT_EQ(other.relays(), 0);
  EXPECT_EQ(same.last_request()["weights"], json({{"base", "b1"}, {"adapter", "d1"}}));
}

TEST_F(RouterWeights, AStreamEndsWithAnErrorWhereOtherContentAloneIsLeft) {
  options_.router.limits.recover_timeout = std::chrono::milliseconds(150);
  StubEngine& dying = add_with("b1", "d1");
  StubEngine& other = add_with("b1", "d2");
  route();
  const json last = last_event_after_losing(dying, adapter_stream());
  EXPECT_EQ(last["error"]["code"], "weights_gone") << last;
  EXPECT_EQ(other.relays(), 0);
}

TEST_F(RouterWeights, AStreamOfAnotherBaseDoesNotGoOn) {
  options_.router.limits.recover_timeout = std::chrono::milliseconds(150);
  StubEngine& dying = add_with("b1", "");
  StubEngine& other = add_with("b2", "");
  route();
  const json last = last_event_after_losing(dying, stream_request());
  EXPECT_EQ(last["error"]["code"], "weights_gone") << last;
  EXPECT_EQ(other.relays(), 0);
  EXPECT_EQ(stats()["engines"][1]["base"], "b2");
}

TEST_F(RouterWeights, AStreamEndsAtOnceWhereTheLastEngineWithItsContentDrains) {
  options_.router.limits.stall_timeout = std::chrono::milliseconds(300);
  StubEngine& drained = add_with("b1", "d1");
  StubEngine& other = add_with("b1", "d2");
  route();
  accept_only(drained);
  StubScript script;
  script.stall_at = 9;
  drained.set_script(script);
  TestClient client(port());
  client.send(http_request("POST", "/v1/completions", adapter_stream().dump()));
  EXPECT_EQ(client.receive_head().status, 200);
  std::string last;
  accept_only(other);
  for (std::string event = client.next_event(); !event.empty() && event != "[DONE]";
       event = client.next_event()) {
    last = event;
  }
  EXPECT_EQ(json::parse(last)["error"]["code"], "weights_gone") << last;
  EXPECT_EQ(other.relays(), 0);
}

}  // namespace
}  // namespace tandem
