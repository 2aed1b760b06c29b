// Tests configs/envoy-route.yaml with other ports: a real Envoy, two `tandem route` processes, and
// stub engines.
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/log/log.h"
#include "tests/base/http/test_call.h"
#include "tests/scheduler/cluster/router/stub_engine.h"
#include "tests/tools/envoy_process.h"
#include "tests/tools/process.h"
#include "tests/tools/route/stream_calls.h"

namespace tandem {
namespace {

using nlohmann::json;

class EnvoyRoute : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = EnvoyProcess::missing(); !why.empty()) GTEST_SKIP() << why;
    log::set_level(log::Level::off);
    std::vector<std::pair<int, int>> ports;
    for (int i = 0; i < 2; ++i) {
      routers_[i] = std::make_unique<Process>(
          std::vector<std::string>{"route", "--port", "0", "--policy", "round_robin", "--engine",
                                   engines_[0].url(), "--engine", engines_[1].url()});
      Process& router = *routers_[i];
      ASSERT_TRUE(router.wait_for_error("id one")) << router.error();
      ASSERT_TRUE(router.wait_for_error("id two")) << router.error();
      ports.emplace_back(8090 + i, listening_port(router));
    }
    envoy_ = std::make_unique<EnvoyProcess>("../configs/envoy-route.yaml", ports);
    ASSERT_GT(envoy_->port(), 0) << envoy_->log();
  }
  void TearDown() override { log::set_level(log::Level::info); }

  json request() const { return {{"prompt", "x"}, {"max_tokens", 9}, {"seed", 1}}; }
  // Requests reach both routers.
  void expect_answers(int count, const char* when) {
    SCOPED_TRACE(when);
    for (int i = 0; i < count; ++i) {
      const ClientResponse answer = post(envoy_->port(), "/v1/completions", request());
      ASSERT_EQ(answer.status, 200) << i << ": " << answer.body << envoy_->log();
    }
  }
  std::string streamed() const {
    json streamed = request();
    streamed["stream"] = true;
    return streamed.dump();
  }
  static Told read_all(TestCall& client, Told told = {}) {
    for (std::string event = client.next_event(); !event.empty(); event = client.next_event()) {
      told.take(event);
    }
    return told;
  }

  StubEngine engines_[2] = {StubEngine("one"), StubEngine("two")};
  std::unique_ptr<Process> routers_[2];
  std::unique_ptr<EnvoyProcess> envoy_;
};

TEST_F(EnvoyRoute, CarriesStreamsOnPastAnEngineAndRequestsPastARouter) {
  expect_answers(4, "both routers live");
  EXPECT_EQ(get(envoy_->port(), "/v1/models").status, 200);
  TestCall undisturbed(envoy_->port(), "POST", "/v1/completions", streamed());
  EXPECT_EQ(undisturbed.receive_head().status, 200);
  const Told right = read_all(undisturbed);
  EXPECT_TRUE(right.done) << right;

  for (StubEngine& engine : engines_) engine.set_script({.stall_at = 3});
  const int before = engines_[0].relays();
  TestCall client(envoy_->port(), "POST", "/v1/completions", streamed());
  EXPECT_EQ(client.receive_head().status, 200);
  Told told;
  told.take(client.next_event());
  for (StubEngine& engine : engines_) engine.set_script({});
  engines_[engines_[0].relays() > before ? 0 : 1].kill();
  EXPECT_EQ(read_all(client, told), right);

  routers_[0]->send_signal(SIGKILL);
  expect_answers(6, "one router is gone");
}

}  // namespace
}  // namespace tandem
