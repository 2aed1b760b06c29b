// The router's REST over real sockets, in front of stub engines.
#include <memory>
#include <string>
#include <vector>

#include "tests/scheduler/cluster/router/router_fixture.h"

namespace tandem {
namespace {

using nlohmann::json;

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
  server_ =
      RouterServer::create(options_, std::make_unique<FixedEngines>(std::vector<HttpAddress>()))
          .value();
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
  const auto refused =
      RouterServer::create(options_, std::make_unique<FixedEngines>(std::vector<HttpAddress>()));
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
