// The statistics that an engine sends to routers, and how it is drained.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>

#include "engine/server/cluster/stats_feed.h"
#include "tests/engine/server/cluster_fixture.h"

namespace tandem::test {
namespace {

using nlohmann::json;

json data_of(const std::string& event) {
  const std::size_t at = event.find("data: ");
  return at == std::string::npos ? json() : json::parse(event.substr(at + 6));
}

// Returns the first event for which `holds` is true, among those within a minute.
json until(EventReader& reader, const std::function<bool(const json&)>& holds) {
  for (int i = 0; i < 3000; ++i) {
    const json event = data_of(reader.next());
    if (event.is_object() && holds(event)) return event;
    if (::testing::Test::HasFailure()) break;
  }
  ADD_FAILURE() << "no such event";
  return json::object();
}

json endless() {
  return {{"prompt", "import os\n"}, {"max_tokens", 240}, {"ignore_eos", true},
          {"temperature", 0},        {"stream", true},    {"model", "python"}};
}

json relayed(const json& request) {
  return {
      {"path", "/v1/completions"}, {"id", "x"}, {"created", 1}, {"seed", 1}, {"request", request}};
}

TEST(Stats, TellTheLoadTheRoomAndTheAdapters) {
  RestEngine engine;
  const json stats = json::parse(engine.get("/v1/stats").body);
  EXPECT_EQ(stats["engine"]["id"].get<std::string>().size(), 16U);
  EXPECT_EQ(stats["engine"]["model"], "base");
  EXPECT_EQ(stats["engine"]["base"], "b1");
  EXPECT_EQ(stats["engine"]["max_model_len"], 256);
  EXPECT_EQ(stats["seq"], 1);
  EXPECT_EQ(stats["accepts"], true);
  EXPECT_EQ(stats["draining"], false);
  EXPECT_EQ(stats["running"]["requests"], 0);
  EXPECT_EQ(stats["waiting"]["requests"], 0);
  EXPECT_EQ(stats["max_requests"], 64);
  const EngineOptions& options = engine.engine->engine->options();
  EXPECT_EQ(stats["kv_tokens"], options.num_pages * options.page_tokens);
  EXPECT_EQ(stats["kv_free_tokens"], options.num_pages * options.page_tokens);
  EXPECT_EQ(stats["prefix_cache"], options.prefix_cache);
  EXPECT_EQ(stats["step_ends_in_s"], nullptr);
  EXPECT_GT(stats["costs"]["step_s"], 0.0);
  EXPECT_GT(stats["cold"]["link_bytes_per_s"], 0.0);
  ASSERT_EQ(stats["adapters"].size(), 4U);
  const json& python = stats["adapters"][3];
  EXPECT_EQ(python["name"], "python");
  EXPECT_EQ(python["rank"], 16);
  EXPECT_EQ(python["tier"], "host");
  EXPECT_EQ(python["active"], 0);
  EXPECT_EQ(python["pinned"], false);
  EXPECT_EQ(python["digest"].get<std::string>().size(), 32U);
}

TEST(Stats, TellAWatcherWhatChanges) {
  RestEngine engine;
  EventReader watch(engine.get("/v1/stats", "watch=1"));
  const json first = data_of(watch.next());
  EXPECT_EQ(first["adapters"].size(), 4U);
  EXPECT_EQ(first["seq"], 1);
  EventReader stream(engine.post("/v1/completions", endless()));
  (void)stream.next();
  std::string tier;
  const json running = until(watch, [&](const json& event) {
    for (const json& adapter : event["adapters"]) {
      EXPECT_EQ(adapter["name"], "python") << "the others have not changed";
      tier = adapter["tier"];
    }
    return event["running"]["requests"] == 1 && tier == "resident";
  });
  EXPECT_GT(running["seq"], 1);
  EXPECT_EQ(running["running"]["rank_sum"], 16);
  EXPECT_EQ(running["running"]["rank_max"], 16);
  ASSERT_TRUE(engine.engine->engine->unload_adapter("license").ok());
  until(watch, [](const json& event) { return event["removed"] == json::array({"license"}); });
  (void)stream.rest();
  const json idle =
      until(watch, [](const json& event) { return event["running"]["requests"] == 0; });
  EXPECT_NE(idle["costs"], first["costs"]) << "nothing was learnt of the steps";
  // A later watcher gets the full state.
  const json late = data_of(EventReader(engine.get("/v1/stats", "watch=1")).next());
  EXPECT_EQ(late["adapters"].size(), 3U);
  EXPECT_EQ(late["removed"], json::array());
}

TEST(Stats, SayThatNothingHasChanged) {
  RestEngine engine;
  StatsFeedOptions options;
  options.look_every = std::chrono::milliseconds(1);
  options.tell_every = std::chrono::milliseconds(5);
  StatsFeed feed(
      *engine.engine->engine, {"id", "1", "base", 256}, [] { return false; }, options);
  HttpResponse response;
  response.source = feed.watch();
  EventReader watch(std::move(response));
  for (int seq = 1; seq <= 4; ++seq) {
    const json event = data_of(watch.next());
    EXPECT_EQ(event["seq"], seq);
    EXPECT_EQ(event["adapters"].size(), seq == 1 ? 4U : 0U);
  }
}

TEST(Drain, LetsRunningRequestsFinishAndRefusesNewOnes) {
  RestEngine engine;
  EventReader direct(engine.post("/v1/completions", endless()));
  (void)direct.next();
  EXPECT_EQ(engine.post("/v1/drain", json::object()).status, 200);
  EXPECT_EQ(engine.get("/ready").status, 503);
  const json stats = json::parse(engine.get("/v1/stats").body);
  EXPECT_EQ(stats["accepts"], false);
  EXPECT_EQ(stats["draining"], true);
  EXPECT_EQ(engine.post("/v1/completions", endless()).status, 503);
  EXPECT_EQ(engine.post("/v1/relay", relayed(endless())).status, 503);
  EXPECT_EQ(direct.rest().back(), "data: [DONE]\n\n");
  EXPECT_EQ(engine.post("/v1/drain", {{"drain", false}}).status, 200);
  EXPECT_EQ(engine.get("/ready").status, 200);
  EXPECT_EQ(EventReader(engine.post("/v1/completions", endless())).rest().back(),
            "data: [DONE]\n\n");
}

TEST(Drain, EndsRelayedCallsForOthersToGoOnWith) {
  RestEngine engine;
  EventReader direct(engine.post("/v1/completions", endless()));
  EventReader moved(engine.post("/v1/relay", relayed(endless())));
  (void)direct.next();
  (void)moved.next();
  json whole = endless();
  whole["stream"] = false;
  HttpResponse response = engine.post("/v1/relay", relayed(whole));
  ASSERT_NE(response.deferred, nullptr);
  std::atomic<bool> woken = false;
  response.deferred->on_ready([&] { woken = true; });
  EXPECT_EQ(engine.post("/v1/drain", {{"hand_over", true}}).status, 200);
  EXPECT_EQ(moved.rest().back(), ":moved\n\n");
  ASSERT_TRUE(response.deferred->ready());
  const HttpResponse refused = response.deferred->take();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(json::parse(refused.body)["error"]["code"], "moved");
  const HttpResponse late = engine.post("/v1/relay", relayed(endless()));
  EXPECT_EQ(late.status, 503);
  EXPECT_EQ(json::parse(late.body)["error"]["code"], "moved");
  EXPECT_EQ(direct.rest().back(), "data: [DONE]\n\n");
  EXPECT_EQ(engine.post("/v1/drain", {{"drain", false}}).status, 200);
  EXPECT_EQ(EventReader(engine.post("/v1/relay", relayed(endless()))).rest().back(),
            "data: [DONE]\n\n");
}

TEST(Drain, NamesWhatIsWrong) {
  RestEngine engine;
  const HttpResponse response = engine.post("/v1/drain", {{"hand_over", 1}});
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(json::parse(response.body)["error"]["param"], "hand_over");
}

}  // namespace
}  // namespace tandem::test
