// Real engines behind a real router: one is killed, drained, or freed of its few streams, and every
// client reads the same text as without that.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/base/http/test_call.h"
#include "tests/tools/process.h"
#include "tests/tools/route/stream_calls.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

constexpr int kTokens = 200;
const std::string kFailovers = "tandem_router_failovers_total";

class Stream {
 public:
  Stream(int port, const StreamCall& call)
      : client_(port, "POST", call.path, call.body.dump()),
        status_(client_.receive_head().status) {}
  void read(int events) {
    for (int i = 0; i < events; ++i) {
      const std::string event = client_.next_event();
      if (event.empty()) return;
      told_.take(event);
    }
  }
  const Told& read_all() {
    for (std::string event = client_.next_event(); !event.empty(); event = client_.next_event()) {
      told_.take(event);
    }
    return told_;
  }
  int status() const { return status_; }

 private:
  TestCall client_;
  const int status_;
  Told told_;
};

// Returns a counter of the router, summed over its labels.
double sum_of(int port, const std::string& counter) {
  const std::string metrics = get(port, "/metrics").body;
  const std::string name = "\n" + counter + "{";
  double sum = 0;
  for (std::size_t at = 0; (at = metrics.find(name, at)) != std::string::npos;) {
    at = metrics.find("} ", at);
    if (at == std::string::npos) break;
    sum += std::stod(metrics.substr(at + 2));
  }
  return sum;
}

class Failover : public testing::Test {
 protected:
  void SetUp() override {
    for (auto& each : engines_) {
      each = std::make_unique<ReadyServer>(engine_words());
      ASSERT_NE(each->port, 0) << each->process.error();
    }
    for (const StreamCall& call : stream_calls(kTokens)) {
      right_.push_back(Stream(engines_[1]->port, call).read_all());
      ASSERT_TRUE(right_.back().done && right_.back().wrong.empty()) << right_.back();
    }
  }
  void route(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words{"route",    "--port", "0",        "--policy", "round_robin",
                                   "--engine", url(0),   "--engine", url(1)};
    words.insert(words.end(), more.begin(), more.end());
    route_ = std::make_unique<Process>(words);
    for (const auto& each : engines_) {
      ASSERT_TRUE(route_->wait_for_error(std::to_string(each->port) + ": the engine serves"))
          << route_->error();
    }
    port_ = listening_port(*route_);
    ASSERT_GT(port_, 0);
  }

  std::string url(int i) const {
    return "http://127.0.0.1:" + std::to_string(engines_[static_cast<std::size_t>(i)]->port);
  }
  void drain(int i, const std::string& how) const {
    EXPECT_EQ(post_raw(engines_[static_cast<std::size_t>(i)]->port, "/v1/drain", how).status, 200);
  }
  void begin_streams() {
    for (const StreamCall& call : stream_calls(kTokens)) {
      streams_.push_back(std::make_unique<Stream>(port_, call));
      ASSERT_EQ(streams_.back()->status(), 200) << route_->error();
      streams_.back()->read(2);
    }
  }
  void expect_right() {
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      EXPECT_EQ(streams_[i]->read_all(), right_[i]) << stream_calls(kTokens)[i].body.dump();
    }
  }

  std::unique_ptr<ReadyServer> engines_[2];
  std::vector<Told> right_;  // from an undisturbed engine
  std::unique_ptr<Process> route_;
  int port_ = 0;
  std::vector<std::unique_ptr<Stream>> streams_;
};

TEST_F(Failover, TellsClientsOfAKilledEngineWhatTheyWouldHaveBeenTold) {
  route();
  begin_streams();
  engines_[0]->process.send_signal(SIGKILL);
  expect_right();
  EXPECT_GT(sum_of(port_, kFailovers), 0) << get(port_, "/metrics").body;
  // The next request goes to the other engine.
  EXPECT_EQ(Stream(port_, stream_calls(kTokens)[0]).read_all().texts, right_[0].texts);
}

TEST_F(Failover, MovesTheStreamsOfADrainedEngine) {
  route();
  begin_streams();
  // Asked directly first, because on a busy machine the streams may end before a program starts.
  drain(0, R"({"hand_over":true})");
  const Finished drained = run_tandem({"drain", url(0)});
  EXPECT_EQ(drained.status, 0) << drained.error;
  EXPECT_THAT(drained.output, HasSubstr("is empty"));
  expect_right();
  EXPECT_GT(sum_of(port_, kFailovers), 0) << get(port_, "/metrics").body;
}

// The second engine has more work, from elsewhere, and the router learns of it only when the first
// has the streams: this determines which of the two is freed.
TEST_F(Failover, MovesTheStreamsOfAnEngineThatCouldRest) {
  const nlohmann::json load{{"prompt", "import os"}, {"max_tokens", 900},  {"n", 12},
                            {"ignore_eos", true},    {"temperature", 0.5}, {"stream", true}};
  TestCall other(engines_[1]->port, "POST", "/v1/completions", load.dump());
  EXPECT_EQ(other.receive_head().status, 200);
  drain(1, R"({"drain":true})");
  route({"--consolidate", "--consolidate-after-s", "0.02"});
  begin_streams();
  drain(1, R"({"drain":false})");
  expect_right();
  EXPECT_GT(sum_of(port_, "tandem_router_moves_total"), 0) << get(port_, "/metrics").body;
  EXPECT_EQ(sum_of(port_, kFailovers), 0) << get(port_, "/metrics").body;
  EXPECT_THAT(get(port_, "/metrics").body, HasSubstr("tandem_router_engines_resting 1"));
}

// During a rolling update the engines have different content under one name.
TEST(FailoverOfOtherContent, EndsTheStreamWithAnErrorAndWithoutAWordOfIt) {
  const auto words = [](const std::string& adapter) {
    return std::vector<std::string>{"serve",
                                    "--model",
                                    "data/demo-llama",
                                    "--adapter",
                                    "x=data/demo-llama/adapters/" + adapter,
                                    "--port",
                                    "0",
                                    "--no-pin",
                                    "--device",
                                    "host",
                                    "--dtype",
                                    "f32",
                                    "--threads",
                                    "1",
                                    "--pool-gb",
                                    "0.1",
                                    "--host-tier-gb",
                                    "0.05"};
  };
  ReadyServer dying(words("python"));
  ReadyServer other(words("license"));
  ASSERT_NE(dying.port, 0) << dying.process.error();
  ASSERT_NE(other.port, 0) << other.process.error();
  const StreamCall call{"/v1/completions",
                        {{"model", "x"},
                         {"prompt", "import os\n\n\nclass Reader:\n"},
                         {"max_tokens", 600},
                         {"temperature", 0},
                         {"ignore_eos", true},
                         {"stream", true}}};
  Told right = Stream(dying.port, call).read_all();
  const std::string url = "http://127.0.0.1:";
  Process route({"route", "--port", "0", "--policy", "first_fit", "--recover-timeout-s", "0.5",
                 "--engine", url + std::to_string(dying.port), "--engine",
                 url + std::to_string(other.port)});
  ASSERT_TRUE(route.wait_for_error("differs from that of")) << route.error();
  const int port = listening_port(route);
  ASSERT_GT(port, 0);
  TestClient client(port);
  client.send(http_request("POST", call.path, call.body.dump()));
  ASSERT_EQ(client.receive_head().status, 200);
  std::string text;
  const auto take = [&](const std::string& event) {
    const nlohmann::json chunk = nlohmann::json::parse(event);
    if (chunk.contains("choices")) text += chunk["choices"][0]["text"].get<std::string>();
    return chunk;
  };
  (void)take(client.next_event());
  dying.process.send_signal(SIGKILL);
  nlohmann::json last;
  for (std::string event = client.next_event(); !event.empty() && event != "[DONE]";
       event = client.next_event()) {
    last = take(event);
  }
  EXPECT_EQ(last["error"]["code"], "weights_gone") << last;
  EXPECT_TRUE(right.texts[0].starts_with(text)) << text;
}

}  // namespace
}  // namespace tandem
