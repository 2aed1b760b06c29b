// The router over real sockets, in front of stub engines.
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/scheduler/cluster/router/router_fixture.h"
#include "tests/support/test_seed.h"

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

TEST_F(RouterTest, LoadsAnAdapterOnEveryEngineAndSaysWhereItFailed) {
  add();
  route();
  json request = stream_request(2);
  request["model"] = "new";
  EXPECT_EQ(post(port(), "/v1/completions", request).status, 404);
  EXPECT_EQ(post(port(), "/v1/load_lora_adapter", {{"lora_name", "new"}}).body, "Success");
  EXPECT_EQ(post(port(), "/v1/completions", request).status, 200);

  server_.reset();
  engines_.push_back(std::make_unique<StubEngine>("refuses"));
  route();
  const ClientResponse partly = post(port(), "/v1/load_lora_adapter", {{"lora_name", "new"}});
  EXPECT_EQ(partly.status, 409);
  EXPECT_EQ(partly.error(),
            fmt::format("Loaded on 1 of 2 engines. {}: the name is taken", engines_[1]->url()));
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

TEST_F(RouterTest, AsksForItsKeyAndGivesItToTheEngines) {
  options_.api_key = "secret";
  add();
  std::vector<HttpAddress> addresses{HttpAddress::parse(engines_[0]->url()).value()};
  server_ = RouterServer::create(options_, std::make_unique<FixedEngines>(addresses)).value();
  ASSERT_TRUE(server_->start());
  EXPECT_EQ(get(port(), "/v1/stats").status, 401);
  EXPECT_EQ(get(port(), "/v1/stats", "Authorization: Bearer secret\r\n").status, 200);
  EXPECT_EQ(get(port(), "/health").status, 200);
  EXPECT_NE(get(port(), "/ready").status, 401);
  EXPECT_EQ(get(port(), "/metrics").status, 401);
  options_.metrics_without_key = true;
  server_ = RouterServer::create(options_, std::make_unique<FixedEngines>(addresses)).value();
  ASSERT_TRUE(server_->start());
  EXPECT_EQ(get(port(), "/metrics").status, 200);
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

TEST_F(RouterTest, ShowsADashboardWhereRequestsWentAndWhy) {
  options_.router.policy = "tandem";
  options_.api_key = "secret";
  add({{.name = "warm", .rank = 8}});
  add({{.name = "warm", .rank = 8}});
  std::vector<HttpAddress> addresses;
  for (const auto& engine : engines_) {
    addresses.push_back(HttpAddress::parse(engine->url()).value());
  }
  server_ = RouterServer::create(options_, std::make_unique<FixedEngines>(addresses)).value();
  ASSERT_TRUE(server_->start());
  EXPECT_EQ(get(port(), "/").status, 200) << "the page holds no data";
  EXPECT_EQ(get(port(), "/dashboard/router.js").status, 200);
  EXPECT_EQ(get(port(), "/v1/dashboard/events").status, 401);
  const std::string key = "Authorization: Bearer secret\r\n";
  ASSERT_TRUE(eventually([&] { return get(port(), "/ready", key).status == 200; }));
  TestCall viewer(port(), "GET", "/v1/dashboard/events", {}, key);
  EXPECT_EQ(viewer.receive_head().status, 200);
  const auto first = nlohmann::json::parse(viewer.next_event());
  EXPECT_EQ(first["kind"], "router");
  EXPECT_EQ(first["tables"]["engines"]["rows"].size(), 2U);
  EXPECT_EQ(first["tables"]["adapters"]["rows"][0]["name"], "warm");
  EXPECT_EQ(post(port(), "/v1/completions", stream_request(), key).status, 200);
  nlohmann::json decisions;
  for (int i = 0; i < 10 && decisions.empty(); ++i) {
    decisions = nlohmann::json::parse(viewer.next_event())["tables"]["decisions"]["rows"];
  }
  ASSERT_EQ(decisions.size(), 1U);
  EXPECT_EQ(decisions[0]["model"], "base");
  EXPECT_GT(decisions[0]["cost_s"], 0.0);
  double sum = 0;
  for (const auto& [name, term] : decisions[0]["terms"].items()) sum += term.get<double>();
  EXPECT_NEAR(sum, decisions[0]["cost_s"].get<double>(), 1e-9);
  EXPECT_NE(decisions[0]["next"]["engine"], decisions[0]["engine"]);
}

TEST_F(RouterTest, TellsBrowsersWhoMayCall) {
  options_.cors_origins = {"https://chat.example.org"};
  options_.api_key = "secret";
  server_ = RouterServer::create(options_, std::make_unique<ToldEngines>()).value();
  ASSERT_TRUE(server_->start());
  const std::string page = "Origin: https://chat.example.org\r\n";
  TestCall client(port(), "OPTIONS", "/v1/completions", {},
                  page + "Connection: close\r\nAccess-Control-Request-Method: POST\r\n");
  const ClientResponse told = client.receive();
  EXPECT_EQ(told.status, 204);
  EXPECT_EQ(told.headers.at("access-control-allow-methods"), "POST");
  EXPECT_EQ(get(port(), "/health", page).headers.at("access-control-allow-origin"),
            "https://chat.example.org");
  options_.cors_origins = {"chat.example.org"};
  const auto refused = RouterServer::create(options_, std::make_unique<ToldEngines>());
  EXPECT_NE(refused.status().message().find("cors_origins"), std::string::npos);
}

TEST_F(RouterTest, DescribesTheCallsThatItHasAsAnEngineDoes) {
  add();
  route();
  const json description = get(port(), "/openapi.json").json();
  const json& paths = description["paths"];
  EXPECT_EQ(paths["/v1/completions"]["post"]["summary"], "Continue prompts");
  EXPECT_TRUE(paths.contains("/v1/models/{id}"));
  EXPECT_EQ(paths["/v1/scale"]["get"]["summary"], "How many engines the load needs");
  EXPECT_FALSE(paths.contains("/v1/relay")) << description;
}

TEST_F(RouterTest, RefusesWhatIsNoJsonItselfAndCountsEverything) {
  add();
  route();
  EXPECT_EQ(post_raw(port(), "/v1/completions", R"({"model": )").status, 400);
  EXPECT_EQ(post_raw(port(), "/v1/completions", std::string("{}\0{}", 5)).status, 400);
  EXPECT_EQ(post_raw(port(), "/v1/completions", "[]").status, 400);
  EXPECT_EQ(get(port(), "/v1/completions").status, 405);
  EXPECT_EQ(get(port(), "/nothing").status, 404);
  EXPECT_EQ(post(port(), "/tokenize", {{"prompt", "x"}}).body, R"({"tokens":[1,2]})");
  (void)stream(stream_request(2));
  const std::string served = fmt::format(
      R"(tandem_router_requests_total{{engine="{}",outcome="served"}} 2)", engines_[0]->url());
  EXPECT_TRUE(
      eventually([&] { return get(port(), "/metrics").body.find(served) != std::string::npos; }));
  EXPECT_NE(get(port(), "/metrics").body.find("tandem_router_engines_up 1"), std::string::npos);
}

}  // namespace
}  // namespace tandem
