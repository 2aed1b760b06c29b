// Tests configs/envoy.yaml with other ports: a real Envoy, `tandem pick`, and two real engines on
// the host device. TANDEM_TEST_ENVOY_REQUESTS is the number of requests; default: 200.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/base/http/test_client.h"
#include "tests/tools/envoy_process.h"
#include "tests/tools/process.h"

namespace tandem {
namespace {

using nlohmann::json;

int requests_wanted() {
  const char* const given = std::getenv("TANDEM_TEST_ENVOY_REQUESTS");
  return given == nullptr ? 200 : std::stoi(given);
}

std::vector<std::string> engine_words() {
  return {"serve",     "--model", "data/demo-llama", "--adapters", "data/demo-llama/adapters",
          "--port",    "0",       "--no-pin",        "--device",   "host",
          "--pool-gb", "0.25",    "--adapter-mode",  "on_demand",  "--link-gbps",
          "0.002"};  // makes cold starts expensive
}

int ask(int port, const std::string& model) {
  const json body = {
      {"model", model}, {"prompt", "import os"}, {"max_tokens", 2}, {"temperature", 0}};
  const ClientResponse answer = post(port, "/v1/completions", body);
  return answer.complete && answer.status == 200 && answer.json().contains("choices")
             ? 200
             : std::max(answer.status, 1);
}

std::map<std::string, std::string> tiers(int port) {
  std::map<std::string, std::string> found;
  const json list = get(port, "/v1/adapters").json();
  for (const json& adapter : list["data"]) {
    found[adapter["name"]] = adapter["tier"];
  }
  return found;
}

// Returns the value of a metric of the picker; its labels are part of the name.
double metric(int port, const std::string& name) {
  const std::string text = get(port, "/metrics").body;
  const std::size_t at = text.find("\n" + name + " ");
  return at == std::string::npos ? -1 : std::stod(text.substr(at + name.size() + 2));
}

class EnvoyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = EnvoyProcess::missing(); !why.empty()) GTEST_SKIP() << why;
    for (auto& engine : engines_) {
      engine = std::make_unique<ReadyServer>(engine_words());
      ASSERT_NE(engine->port, 0) << engine->process.error();
    }
    // Makes each adapter resident on one engine before the picker starts.
    for (const char* model : {"python", "license"}) ASSERT_EQ(ask(engines_[0]->port, model), 200);
    for (const char* model : {"cheader", "docstring"})
      ASSERT_EQ(ask(engines_[1]->port, model), 200);
    before_[0] = tiers(engines_[0]->port);
    before_[1] = tiers(engines_[1]->port);
    ASSERT_EQ(before_[0]["python"], "device");
    ASSERT_EQ(before_[1]["python"], "host");
    start_picker();
    start_envoy();
  }

  void start_picker() {
    picker_ = std::make_unique<Process>(std::vector<std::string>{
        "pick", "--port", "0", "--metrics-port", "0", "--engine", url(0), "--engine", url(1)});
    for (const auto& engine : engines_) {
      ASSERT_TRUE(picker_->wait_for_error(std::to_string(engine->port) + ": the engine serves"))
          << picker_->error();
    }
    metrics_ = picker_->wait_for_number("metrics on http://127.0.0.1:");
    ASSERT_GT(metrics_, 0) << picker_->error();
  }

  void start_envoy() {
    const int picker = picker_->wait_for_number("listening on 127.0.0.1:");
    ASSERT_GT(picker, 0) << picker_->error();
    envoy_ = std::make_unique<EnvoyProcess>(
        "../configs/envoy.yaml",
        std::vector<std::pair<int, int>>{
            {8001, engines_[0]->port}, {8002, engines_[1]->port}, {9002, picker}});
    port_ = envoy_->port();
    ASSERT_GT(port_, 0) << envoy_->log();
  }

  std::string url(int i) const {
    return "http://127.0.0.1:" + std::to_string(engines_[static_cast<std::size_t>(i)]->port);
  }

  std::unique_ptr<ReadyServer> engines_[2];
  std::map<std::string, std::string> before_[2];
  std::unique_ptr<Process> picker_;
  std::unique_ptr<EnvoyProcess> envoy_;
  int metrics_ = 0;
  int port_ = 0;  // of Envoy
};

TEST_F(EnvoyTest, SendsRequestsWhereTheirAdapterIsAndOutlivesAnEngine) {
  const std::vector<std::string> models{"python", "cheader", "license", "docstring", "demo-llama"};
  const int half = requests_wanted() / 2;
  for (int i = 0; i < half; ++i) {
    const std::string& model = models[static_cast<std::size_t>(i) % (models.size() - 1)];
    ASSERT_EQ(ask(port_, model), 200) << i << "\n" << envoy_->log() << picker_->error();
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(tiers(engines_[i]->port), before_[i]);  // each adapter is only where it was
    const std::string picks =
        "tandem_picker_picks_total{engine=\"127.0.0.1:" + std::to_string(engines_[i]->port) + "\"}";
    EXPECT_EQ(metric(metrics_, picks), half / 2) << get(metrics_, "/metrics").body;
  }
  EXPECT_EQ(ask(port_, "nobody"), 404);
  EXPECT_EQ(post_raw(port_, "/v1/completions", "{").status, 400);
  EXPECT_EQ(get(port_, "/v1/models").status, 200);

  constexpr int kClients = 4;
  std::atomic<int> next{0};
  std::atomic<int> failed{0};
  std::atomic<int> failed_later{0};
  std::atomic<bool> noticed{false};
  std::vector<std::thread> clients;
  for (int t = 0; t < kClients; ++t) {
    clients.emplace_back([&] {
      for (int i = next++; i < half; i = next++) {
        const bool later = noticed;
        if (i == half / 4) engines_[0]->process.send_signal(SIGKILL);
        if (ask(port_, models[static_cast<std::size_t>(i) % models.size()]) != 200) {
          ++(later ? failed_later : failed);
        }
        if (!noticed && metric(metrics_, "tandem_picker_engines_up") == 1) noticed = true;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_LE(failed, kClients);  // those whose answers had begun
  EXPECT_EQ(failed_later, 0);
  EXPECT_EQ(metric(metrics_, "tandem_picker_engines_up"), 1);
  EXPECT_EQ(ask(port_, "python"), 200);

  picker_->send_signal(SIGTERM);
  EXPECT_EQ(picker_->wait(), 0) << picker_->error();
}

}  // namespace
}  // namespace tandem
