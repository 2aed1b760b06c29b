// The choice of an engine for a request, over real sockets, in front of stub engines.
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/scheduler/cluster/router/router_fixture.h"

namespace tandem {
namespace {

using nlohmann::json;

// A source whose changes the test sends.
class ToldEngines final : public EngineSource {
 public:
  void watch(Changed changed) override { changed_ = std::move(changed); }
  void tell(const std::vector<std::string>& urls) const {
    std::vector<HttpAddress> addresses;
    for (const std::string& url : urls) addresses.push_back(HttpAddress::parse(url).value());
    changed_(std::move(addresses));
  }

 private:
  Changed changed_;
};

TEST_F(RouterTest, AsksAnotherEngineWhenOneIsFullOrStartingOrBroken) {
  StubEngine& bad = add();
  add();
  route();
  json request = stream_request(3);
  request["stream"] = false;
  for (const int status : {503, 429, 500}) {
    StubScript script;
    script.status = status;
    bad.set_script(script);
    EXPECT_EQ(post(port(), "/v1/completions", request).status, 200) << status;
    EXPECT_EQ(post(port(), "/v1/completions", request).status, 200) << status;
  }
  StubScript breaks;
  breaks.break_at = 1;
  bad.set_script(breaks);
  EXPECT_EQ(post(port(), "/v1/completions", request).status, 200);
  EXPECT_EQ(post(port(), "/v1/completions", request).status, 200);
}

TEST_F(RouterTest, SaysInTheLogThatTheEnginesConnectionBroke) {
  StubEngine& bad = add();
  add();
  route();
  StubScript breaks;
  breaks.break_at = 1;
  bad.set_script(breaks);
  log::set_level(log::Level::warning);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(post(port(), "/v1/completions", stream_request(3)).status, 200);
  log::set_level(log::Level::off);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find(bad.url() + ": the connection to the engine broke ("), std::string::npos)
      << said;
  EXPECT_NE(said.find("the router looks for another engine for request "), std::string::npos);
}

TEST_F(RouterTest, PassesTheEnginesRefusalsOn) {
  StubEngine& engine = add();
  route();
  StubScript script;
  script.status = 400;
  engine.set_script(script);
  const ClientResponse refused = post(port(), "/v1/completions", stream_request());
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.error(), "as the script says");
  EXPECT_EQ(engine.relays(), 1);
  script.status = 404;  // no other engine may have it
  engine.set_script(script);
  EXPECT_EQ(post(port(), "/v1/completions", stream_request()).status, 404);
  script.status = 429;  // no other engine may have room
  engine.set_script(script);
  EXPECT_EQ(post(port(), "/v1/completions", stream_request()).status, 429);
}

TEST_F(RouterTest, SetsALyingEngineAsideUntilItTellsTheTruth) {
  StubEngine& liar = add();
  StubEngine& honest = add();
  route();
  liar.set_lie({{"running", {{"requests", -5}}}});
  EXPECT_TRUE(eventually([&] { return up() == 1; }));
  EXPECT_EQ(stats()["engines"][0]["why_not"],
            "its statistics are wrong: running.requests is out of bounds");
  const int before = liar.relays();
  for (int i = 0; i < 4; ++i) (void)stream(stream_request(2));
  EXPECT_EQ(liar.relays(), before);
  EXPECT_GE(honest.relays(), 4);
  liar.set_lie(json::object());
  EXPECT_TRUE(eventually([&] { return up() == 2; }));
}

TEST_F(RouterTest, SendsNothingToADrainingEngineAndSaysSoWhenNoneIsLeft) {
  StubEngine& first = add();
  StubEngine& second = add();
  route();
  first.set_accepts(false);
  EXPECT_TRUE(eventually([&] { return !stats()["engines"][0]["accepts"].get<bool>(); }));
  for (int i = 0; i < 3; ++i) (void)stream(stream_request(2));
  EXPECT_EQ(first.relays(), 0);
  second.set_accepts(false);
  EXPECT_TRUE(eventually([&] { return get(port(), "/ready").status == 503; }));
  const ClientResponse none = post(port(), "/v1/completions", stream_request());
  EXPECT_EQ(none.status, 503);
  EXPECT_EQ(none.headers.at("retry-after"), "1");
}

TEST_F(RouterTest, SendsPromptsThatBeginAlikeToOneEngineAndSpreadsOthers) {
  options_.router.policy = "tandem";
  for (int i = 0; i < 3; ++i) add();
  const json costs = {{"costs", {{"prefill_token_s", 1e-3}}}};
  for (const auto& engine : engines_) engine->set_lie(costs);
  route();
  const auto serve = [&](const std::string& head, const std::string& tail) {
    std::vector<int> before;
    for (const auto& engine : engines_) before.push_back(engine->relays());
    const json request = {
        {"model", "base"},
        {"messages",
         {{{"role", "system"}, {"content", head}}, {{"role", "user"}, {"content", tail}}}},
        {"max_tokens", 2}};
    EXPECT_EQ(post(port(), "/v1/chat/completions", request).status, 200);
    for (std::size_t i = 0; i < engines_.size(); ++i) {
      if (engines_[i]->relays() > before[i]) return static_cast<int>(i);
    }
    return -1;
  };
  const auto burden = [&](int engine, int requests) {
    json lie = costs;
    lie["running"] = {{"requests", requests}};
    engines_[static_cast<std::size_t>(engine)]->set_lie(lie);
    return eventually([&] {
      return stats()["engines"][static_cast<std::size_t>(engine)]["running"]["requests"] ==
             requests;
    });
  };
  const std::string law(2000, 'l');
  const std::string medicine(2000, 'm');
  const int lawyer = serve(law, "one");
  ASSERT_TRUE(burden(lawyer, 1));
  const int doctor = serve(medicine, "one");
  EXPECT_NE(doctor, lawyer);
  ASSERT_TRUE(burden(doctor, 1));
  EXPECT_EQ(serve(law, "two"), lawyer);
  EXPECT_EQ(serve(medicine, "two"), doctor);
  const int third = serve("short", "one");
  EXPECT_NE(third, lawyer);
  EXPECT_NE(third, doctor);
}

TEST_F(RouterTest, LetsThoseWaitWhoAskBeforeItKnowsItsEngines) {
  const StubEngine& engine = add();
  auto source = std::make_unique<ToldEngines>();
  const ToldEngines& told = *source;
  options_.router.limits.first_report_timeout = std::chrono::seconds(60);
  server_ = RouterServer::create(options_, std::move(source)).value();
  ASSERT_TRUE(server_->start());
  auto early = std::async(std::launch::async, [&] { return stream(stream_request(4)); });
  ASSERT_TRUE(eventually([&] { return stats()["waiting"] == 1; }));
  told.tell({engine.url()});
  EXPECT_EQ(early.get(), stream(stream_request(4)));
  // From now on a request for an unknown model gets that answer at once.
  EXPECT_EQ(post(port(), "/v1/completions", {{"model", "none"}, {"prompt", "x"}}).status, 404);
}

TEST_F(RouterTest, LetsNobodyWaitForLongForEnginesThatSayNothing) {
  auto source = std::make_unique<ToldEngines>();
  options_.router.limits.first_report_timeout = std::chrono::milliseconds(30);
  server_ = RouterServer::create(options_, std::move(source)).value();
  ASSERT_TRUE(server_->start());
  EXPECT_EQ(post(port(), "/v1/completions", stream_request(4)).status, 503);
}

TEST_F(RouterTest, LetsAnEngineGoWhenItIsNeitherListedNorHeard) {
  StubEngine& first = add();
  StubEngine& second = add();
  auto source = std::make_unique<ToldEngines>();
  const ToldEngines& registry = *source;
  server_ = RouterServer::create(options_, std::move(source)).value();
  ASSERT_TRUE(server_->start());
  EXPECT_EQ(get(port(), "/ready").status, 503);
  registry.tell({first.url(), second.url()});
  EXPECT_TRUE(eventually([&] { return up() == 2; }));
  // A lapsed lease or a lost registry does not mean that the engine is gone.
  registry.tell({second.url()});
  EXPECT_TRUE(eventually([&] { return !stats()["engines"][0]["listed"].get<bool>(); }));
  for (int i = 0; i < 4; ++i) (void)stream(stream_request(2));
  EXPECT_EQ(first.relays(), 2);
  first.kill();
  EXPECT_TRUE(eventually([&] { return stats()["engines"].size() == 1; }));
  EXPECT_EQ(stats()["engines"][0]["url"], second.url());
  // A listed engine stays after a failure, and is used again when it is back.
  second.kill();
  EXPECT_TRUE(eventually([&] { return up() == 0; }));
  EXPECT_EQ(stats()["engines"].size(), 1U);
  registry.tell({});
  EXPECT_TRUE(eventually([&] { return stats()["engines"].empty(); }));
}

TEST_F(RouterTest, KnowsWhichEngineHasWhichAdapter) {
  StubEngine& first = add({{.name = "a"}, {.name = "b", .rank = 64}});
  StubEngine& second = add({{.name = "b", .rank = 64}});
  route();
  json request = stream_request(2);
  request["model"] = "a";
  for (int i = 0; i < 3; ++i) (void)stream(request);
  EXPECT_EQ(first.relays(), 3);
  EXPECT_EQ(second.relays(), 0);
  request["model"] = "nobody's";
  EXPECT_EQ(post(port(), "/v1/completions", request).status, 404);
  const json models = get(port(), "/v1/models").json();
  EXPECT_EQ(models["data"].size(), 3U);
  const json adapters = get(port(), "/v1/adapters").json();
  EXPECT_EQ(adapters["data"].size(), 3U);
  EXPECT_EQ(adapters["data"][2]["engine"], second.url());
  ASSERT_EQ(adapters["refused"].size(), 2U);
  EXPECT_EQ(adapters["refused"][0]["name"], "bad");
  EXPECT_EQ(adapters["refused"][1]["engine"], second.url());
}

TEST_F(RouterTest, AsksOneMoreEngineWhereADeadlineIsOutOfReach) {
  for (int i = 0; i < 3; ++i) add().set_script({.status = 429, .reason = "deadline_unreachable"});
  route();
  const ClientResponse late = post(port(), "/v1/completions", stream_request());
  EXPECT_EQ(late.status, 429);
  int asked = 0;
  for (const auto& engine : engines_) asked += engine->relays();
  EXPECT_EQ(asked, 2);
}

TEST_F(RouterTest, TellsThoseWhoWaitTooLongToComeAgain) {
  options_.router.policy = "first_fit";
  options_.router.limits.queue_timeout = std::chrono::milliseconds(50);
  options_.router.limits.max_queue = 1;
  StubEngine& engine = add();
  engine.set_lie({{"kv_free_tokens", 0}});
  route();
  const ClientResponse late = post(port(), "/v1/completions", stream_request());
  EXPECT_EQ(late.status, 429);
  EXPECT_EQ(late.error("code"), "queue_timeout");
  EXPECT_EQ(late.headers.at("retry-after"), "1");
}

TEST_F(RouterTest, ServesThoseWhoWaitWhenThereIsRoom) {
  options_.router.policy = "first_fit";
  StubEngine& engine = add();
  engine.set_lie({{"kv_free_tokens", 0}});
  route();
  TestCall client(port(), "POST", "/v1/completions", stream_request(2).dump());
  EXPECT_TRUE(eventually([&] { return stats()["waiting"] == 1; }));
  EXPECT_EQ(get(port(), "/v1/scale").json()["action"], "grow");
  engine.set_lie(json::object());
  EXPECT_EQ(client.receive().status, 200);
}

}  // namespace
}  // namespace tandem
