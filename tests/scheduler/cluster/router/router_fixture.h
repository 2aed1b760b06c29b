// A router over real sockets, in front of stub engines.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/log/log.h"
#include "scheduler/cluster/router/front/router_server.h"
#include "tests/base/http/test_call.h"
#include "tests/scheduler/cluster/router/stub_engine.h"

namespace tandem {

class RouterTest : public ::testing::Test {
 protected:
  RouterTest() {
    log::set_level(log::Level::off);
    options_.port = 0;
    options_.router.watch.retry = std::chrono::milliseconds(20);
    options_.router.policy = "round_robin";  // the first request goes to engine 0
  }
  ~RouterTest() override { log::set_level(log::Level::info); }

  StubEngine& add(std::vector<StubAdapter> adapters = {}) {
    const auto id = fmt::format("e{}", engines_.size());
    return *engines_.emplace_back(std::make_unique<StubEngine>(id, std::move(adapters)));
  }
  void route() {
    std::vector<HttpAddress> addresses;
    for (const auto& engine : engines_) {
      addresses.push_back(HttpAddress::parse(engine->url()).value());
    }
    server_ = RouterServer::create(options_, std::make_unique<FixedEngines>(addresses)).value();
    ASSERT_TRUE(server_->start());
    ASSERT_TRUE(eventually([&] { return up() == engines_.size(); }));
  }
  int port() const { return server_->port(); }
  nlohmann::json stats() const { return get(port(), "/v1/stats").json(); }
  std::size_t up() const {
    std::size_t count = 0;
    const nlohmann::json now = stats();
    for (const nlohmann::json& engine : now["engines"]) count += engine["up"].get<bool>() ? 1 : 0;
    return count;
  }

  // Makes all other engines drain.
  void accept_only(StubEngine& chosen) {
    for (const auto& engine : engines_) engine->set_accepts(engine.get() == &chosen);
    ASSERT_TRUE(eventually([&] {
      const nlohmann::json now = stats();
      for (const nlohmann::json& engine : now["engines"]) {
        if (engine["accepts"].get<bool>() != (engine["url"] == chosen.url())) return false;
      }
      return true;
    }));
  }

  static nlohmann::json stream_request(int tokens = 40) {
    return {
        {"model", "base"}, {"prompt", "x"}, {"max_tokens", tokens}, {"stream", true}, {"seed", 7}};
  }
  // Returns the body of a stream without the parts that differ from run to run.
  std::string stream(const nlohmann::json& request) const {
    return plain(post(port(), "/v1/completions", request));
  }
  // Returns each choice's events in order, because the order of the choices depends on the engine.
  static std::map<int, std::string> by_choice(const std::string& body) {
    std::map<int, std::string> choices;
    for (const std::string& event : events_of(body)) {
      const std::size_t at = event.find("\"index\":");
      choices[at == std::string::npos ? -1 : event[at + 8] - '0'] += event;
    }
    return choices;
  }
  static std::string plain(const ClientResponse& response) {
    EXPECT_EQ(response.status, 200) << response.body;
    EXPECT_TRUE(response.complete);
    const auto events = events_of(response.body);
    if (events.empty()) return response.body;
    const nlohmann::json first = nlohmann::json::parse(events.front());
    if (!first.contains("id")) return response.body;
    std::string text = response.body;
    const auto blank = [&text](const std::string& what) {
      for (std::size_t at = 0; (at = text.find(what)) != std::string::npos;) {
        text.replace(at, what.size(), "?");
      }
    };
    blank(first["id"].get<std::string>());
    blank(fmt::format("\"created\":{}", first["created"].get<std::int64_t>()));
    return text;
  }

  RouterServerOptions options_;
  std::vector<std::unique_ptr<StubEngine>> engines_;
  std::unique_ptr<RouterServer> server_;
};

}  // namespace tandem
