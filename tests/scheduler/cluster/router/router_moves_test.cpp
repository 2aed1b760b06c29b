// The router moves streams to free an engine.
#include <chrono>
#include <string>

#include "tests/scheduler/cluster/router/router_fixture.h"

namespace tandem {
namespace {

using nlohmann::json;

TEST_F(RouterTest, MovesAStreamOffAnEngineThatCouldRest) {
  options_.router.consolidation.on = true;
  options_.router.consolidation.after = std::chrono::milliseconds(100);
  StubEngine& light = add();
  StubEngine& busier = add();
  busier.set_accepts(false);
  route();
  json request = stream_request();
  request["n"] = 2;
  const auto whole = by_choice(stream(request));
  StubScript script;
  script.stall_at = 9;  // it continues only on another engine
  light.set_script(script);
  TestCall client(port(), "POST", "/v1/completions", request.dump());
  ClientResponse response = client.receive_head();
  response.body = client.next_chunk();
  busier.set_lie({{"running", {{"requests", 20}}}});
  busier.set_accepts(true);
  response.body += client.receive_chunks();
  response.complete = true;
  EXPECT_EQ(by_choice(plain(response)), whole);
  EXPECT_EQ(busier.continued(), 1);
  EXPECT_TRUE(eventually([&] { return light.cancelled() == 1; }));
  EXPECT_EQ(stats()["engines"][0]["rests"], true);
  const std::string metrics = get(port(), "/metrics").body;
  EXPECT_NE(metrics.find(fmt::format(R"(tandem_router_moves_total{{engine="{}",start="warm"}} 1)",
                                     light.url())),
            std::string::npos)
      << metrics;
  EXPECT_NE(metrics.find("tandem_router_move_seconds_count 1"), std::string::npos);
  EXPECT_EQ(metrics.find("tandem_router_failovers_total{"), std::string::npos);

  // New requests go to the other engine until it is full.
  light.set_script({});
  const int before = light.relays();
  for (int i = 0; i < 4; ++i) (void)stream(stream_request(2));
  EXPECT_EQ(light.relays(), before);
  busier.set_lie({{"running", {{"requests", 250}}}});
  EXPECT_TRUE(eventually([&] { return stats()["engines"][0]["rests"] == false; }));
  for (int i = 0; i < 4; ++i) (void)stream(stream_request(2));
  EXPECT_GT(light.relays(), before);
}

TEST_F(RouterTest, AsksAnEngineThatRestsWhereNoOtherHasTheAdapterOrIsAlive) {
  options_.router.consolidation.on = true;
  options_.router.consolidation.after = std::chrono::milliseconds(100);
  StubEngine& first = add({{.name = "a"}});
  StubEngine& second = add();
  second.set_lie({{"running", {{"requests", 5}}}});
  route();
  const auto rests = [&] { return stats()["engines"][0]["rests"] == true; };
  EXPECT_TRUE(eventually(rests));
  json request = stream_request(2);
  request["model"] = "a";
  (void)stream(request);
  EXPECT_EQ(first.relays(), 1);
  EXPECT_TRUE(eventually(rests));
  second.kill();
  EXPECT_TRUE(eventually([&] { return up() == 1; }));
  (void)stream(stream_request(2));
  EXPECT_EQ(first.relays(), 2);
}

}  // namespace
}  // namespace tandem
