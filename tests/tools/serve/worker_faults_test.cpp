// Tests a real server and its real CPU workers under load while the workers are killed, stopped,
// slowed down and write garbage: every request gets the text of a server that holds all adapters,
// and nothing is left behind.
//
//  TANDEM_TEST_FAULT_SECONDS=600   duration of the faults; default: seconds
//  TANDEM_TEST_SEED=1              seed of the faults and of the load; printed by each run
//  TANDEM_TEST_DEVICE=cuda         the server's device; default: host
//  TANDEM_TEST_PROGRAM=FILE        the `tandem` to test; default: this build's
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <thread>

#include "base/check.h"
#include "tests/support/sanitized.h"
#include "tests/support/test_seed.h"
#include "tests/tools/process.h"
#include "tests/tools/serve/besieged_server.h"
#include "tests/tools/serve/worker_faults.h"

namespace tandem {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

// A sanitizer slows the server except for its arithmetic, so workers and link have to be slow
// enough for rows to be handed over.
const int kDefaultSeconds = sanitized() ? 5 : 20;
const int kDefaultSecondsOfTwo = sanitized() ? 3 : 2;
const int kMaxTokens = sanitized() ? 6 : 24;
const unsigned kClients = sanitized() ? 2 : 4;
const char* const kLinkGbps = sanitized() ? "0.004" : "0.02";
const char* const kDeadlineMs = sanitized() ? "2000" : "100";
const int kLayersAfterwards = sanitized() ? 4 : 50;
constexpr int kMaxWorkers = 3;

unsigned number_from(const char* variable, unsigned otherwise) {
  const char* const given = std::getenv(variable);
  return given == nullptr ? otherwise : static_cast<unsigned>(std::stoul(given));
}

// Differs in every run, because the effects of the faults depend on chance anyway.
unsigned seed_of_run() {
  return static_cast<unsigned>(test_seed());
}

std::vector<std::string> serve(const std::string& mode, int devices = 1) {
  const char* const device = std::getenv("TANDEM_TEST_DEVICE");
  ServeChoices choices;
  choices.mode = mode;
  if (device != nullptr) choices.device = device;
  choices.devices = devices;
  choices.link_gbps = kLinkGbps;
  choices.deadline_ms = kDeadlineMs;
  choices.max_workers = kMaxWorkers;
  return serve_with_workers(choices);
}

int num_workers() {
  return worker_cpus(kMaxWorkers).count;
}

// The same in every run, because these prompts are known to have no near-ties.
std::vector<nlohmann::json> make_asks() {
  const std::vector<std::string> prompts = {
      "def read_lines(path, encoding=\"utf-8\"):\n    \"\"\"",
      "#ifndef _UTIL_H\n#define _UTIL_H\n\n",
      "The GNU General Public License is a free, copyleft license for",
      "import os\nimport sys\n\n\nclass Reader:\n    def __init__(self, fp):\n        self.fp = "
      "fp\n\n"};
  std::vector<nlohmann::json> asks;
  for (const char* model : {"cheader", "docstring", "license", "python", "demo-llama"}) {
    for (const std::string& prompt : prompts) {
      const std::size_t i = asks.size();
      nlohmann::json ask = {{"model", model},
                            {"prompt", prompt},
                            {"max_tokens", kMaxTokens - static_cast<int>(i % 4)},
                            {"ignore_eos", true},
                            {"temperature", 0},
                            {"stream", i % 2 == 1}};
      asks.push_back(ask);
      ask["temperature"] = 0.8;
      ask["seed"] = i;
      asks.push_back(ask);
    }
  }
  return asks;
}

struct Answer {
  bool ok = false;
  std::string text;  // the text, or else the error
};

// Reads "data: {...}" lines of a stream, or one object.
Answer ask_server(int port, const nlohmann::json& ask) {
  const std::string whole = HttpExchange(port, "POST", "/v1/completions", ask.dump()).read_all();
  const std::size_t body = whole.find("\r\n\r\n");
  if (!whole.starts_with("HTTP/1.1 200") || body == std::string::npos) return {false, whole};
  Answer answer{!ask["stream"], ""};
  const auto add = [&](const std::string& text) {
    const nlohmann::json part = nlohmann::json::parse(text, nullptr, false);
    if (!part.is_object() || !part.contains("choices")) return false;
    for (const nlohmann::json& choice : part["choices"]) answer.text += choice["text"];
    return true;
  };
  if (!ask["stream"]) return add(whole.substr(body)) ? answer : Answer{false, whole};
  const std::string marker = "\ndata: ";
  for (std::size_t at = whole.find(marker); at != std::string::npos; at = whole.find(marker, at)) {
    at += marker.size();
    const std::string line = whole.substr(at, whole.find('\n', at) - at);
    if (line.starts_with("[DONE]")) {
      answer.ok = true;
    } else if (!add(line)) {
      return {false, whole};
    }
  }
  return answer.ok ? answer : Answer{false, whole};
}

// Clients that send one request after another and compare the answers.
class Load {
 public:
  Load(int port, const std::vector<nlohmann::json>& asks, const std::vector<std::string>& wanted,
       unsigned seed) {
    const auto ask = [this, port, asks, wanted](std::mt19937& random) {
      const std::size_t i = random() % asks.size();
      const Answer answer = ask_server(port, asks[i]);
      if (answer.ok && answer.text == wanted[i]) return crowd_.count("right");
      crowd_.fail(fmt::format("asked {}\nwanted '{}'\ngot    '{}'\n", asks[i].dump(), wanted[i],
                              answer.text));
    };
    for (unsigned i = 0; i < kClients; ++i) crowd_.add(ask, seed + i);
  }
  void stop() { crowd_.stop(); }
  int answered() const { return crowd_.counts()["right"]; }
  // Empty: all answers so far were right.
  std::string failure() const { return crowd_.failure(); }

 private:
  Crowd crowd_;
};

// Returns a counter of the handoff in /v1/adapters; -1: it is missing.
std::int64_t count(const ReadyServer& server, const char* name) {
  const std::string page = HttpExchange(server.port, "GET", "/v1/adapters", "").read_all();
  const std::size_t body = page.find("\r\n\r\n");
  if (body == std::string::npos) return -1;
  const nlohmann::json json = nlohmann::json::parse(page.substr(body), nullptr, false);
  return json.is_object() && json.contains("handoff") ? json["handoff"].value(name, -1) : -1;
}

class RealWorkers : public ::testing::Test {
 protected:
  // Gets the expected texts from a server with all adapters on its device.
  void SetUp() override {
    ReadyServer oracle(serve("cached"));
    ASSERT_GT(oracle.port, 0) << oracle.process.error();
    for (const nlohmann::json& ask : asks_) {
      const Answer answer = ask_server(oracle.port, ask);
      ASSERT_TRUE(answer.ok) << answer.text;
      wanted_.push_back(answer.text);
    }
    expect_end(oracle, SIGINT);
  }

  // Causes all kinds of faults while `server` is under load; then its workers are up and compute
  // again.
  void besiege(ReadyServer& server, int default_seconds);

  static std::int64_t by_workers(const ReadyServer& server) { return count(server, "cpu_layers"); }
  static std::int64_t live(const ReadyServer& server) { return count(server, "cpu_workers"); }
  const std::vector<nlohmann::json> asks_ = make_asks();
  std::vector<std::string> wanted_;
};

void RealWorkers::besiege(ReadyServer& server, int default_seconds) {
  const unsigned seed = seed_of_run();
  SCOPED_TRACE(::testing::Message() << "TANDEM_TEST_SEED=" << seed);
  ASSERT_GT(server.port, 0) << server.process.error();
  const pid_t engine = server.process.pid();
  Load load(server.port, asks_, wanted_, seed);
  ASSERT_TRUE(eventually([&] { return by_workers(server) > 0; })) << load.failure();

  FaultInjector faults(engine, seed);
  std::mt19937 random(seed);
  const auto revive = [&] {
    return run_tandem({"pin", "apply", "--engine", std::to_string(engine)});
  };
  const auto finish =
      steady_clock::now() + seconds(number_from("TANDEM_TEST_FAULT_SECONDS", default_seconds));
  auto next_look = steady_clock::now();
  while (steady_clock::now() < finish && load.failure().empty()) {
    faults.act();
    server.process.read_what_is_there();
    std::this_thread::sleep_for(milliseconds(random() % 200));
    if (steady_clock::now() < next_look) continue;
    next_look = steady_clock::now() + seconds(1);
    // Workers that died too often are not restarted until somebody does so, as here.
    if (live(server) == 0) (void)revive();
  }
  EXPECT_EQ(load.failure(), "") << faults.history() << server.process.error();
  faults.heal();
  Finished revived;
  EXPECT_TRUE(eventually([&] {
    if (live(server) >= num_workers()) return true;
    revived = revive();
    return false;
  })) << revived.output
      << revived.error << faults.history() << server.process.error();
  const std::int64_t before = by_workers(server);
  // On a busy machine workers may miss deadlines even now, and too many misses exclude a worker.
  EXPECT_TRUE(eventually([&] {
    if (by_workers(server) >= before + kLayersAfterwards) return true;
    if (live(server) == 0) revived = revive();
    return false;
  })) << load.failure()
      << revived.output << revived.error << server.process.error();
  EXPECT_GT(count(server, "restarts"), 0);
  load.stop();
  EXPECT_EQ(load.failure(), "");
  fmt::print("{} requests, {} layers by workers, {} restarts, {} deadlines missed, {} replays\n",
             load.answered(), by_workers(server), count(server, "restarts"),
             count(server, "deadline_misses"), count(server, "replays"));
  expect_end(server, SIGINT);
}

TEST_F(RealWorkers, MayDoAnythingAndEveryRequestGetsItsText) {
  ReadyServer server(serve("planned"));
  besiege(server, kDefaultSeconds);
}

// The first device offers and both accept: whatever a worker does, both must decide alike, or one
// would wait for the other for ever. The expected texts are those of one device. Each device's link
// is throttled like the single device's, so that rows are handed over all the time.
TEST_F(RealWorkers, MayDoAnythingWhileTwoDevicesShareTheModel) {
  const char* const device = std::getenv("TANDEM_TEST_DEVICE");
  if (device != nullptr && device != std::string("host") &&
      !std::filesystem::exists("/dev/nvidia1")) {
    GTEST_SKIP() << "there is one GPU";
  }
  ReadyServer server(serve("planned", 2));
  besiege(server, kDefaultSecondsOfTwo);
}

TEST_F(RealWorkers, EndWithAnEngineThatIsKilledAndTheNextRemovesItsRegions) {
  std::optional<ReadyServer> server(serve("cpu_assist"));
  ASSERT_GT(server->port, 0) << server->process.error();
  const pid_t engine = server->process.pid();
  ASSERT_TRUE(eventually([&] { return live(*server) == num_workers(); }));

  const pid_t still = workers_of(engine).front();
  ASSERT_EQ(kill(still, SIGSTOP), 0);
  EXPECT_TRUE(eventually([&] {
    const std::vector<pid_t> now = workers_of(engine);
    return std::find(now.begin(), now.end(), still) == now.end() && live(*server) == num_workers();
  })) << "its heartbeat is missed";

  Load load(server->port, asks_, wanted_, 1);
  ASSERT_TRUE(eventually([&] { return by_workers(*server) > 0; })) << load.failure();
  const std::vector<pid_t> last = workers_of(engine);
  if (!last.empty()) kill(last.front(), SIGSTOP);
  server.reset();  // SIGKILL
  EXPECT_TRUE(eventually([&] { return workers_of(engine).empty(); }));
  load.stop();
  EXPECT_THAT(regions_of(engine), ::testing::Not(::testing::IsEmpty()));

  ReadyServer next(serve("cpu_assist"));
  ASSERT_GT(next.port, 0) << next.process.error();
  EXPECT_THAT(regions_of(engine), ::testing::IsEmpty());
  EXPECT_EQ(ask_server(next.port, asks_[0]).text, wanted_[0]);
  expect_end(next, SIGINT);
}

TEST_F(RealWorkers, OfTwoEnginesDoNotMeet) {
  ReadyServer one(serve("cpu_assist"));
  ReadyServer other(serve("cpu_assist"));
  ASSERT_GT(one.port, 0) << one.process.error();
  ASSERT_GT(other.port, 0) << other.process.error();
  Load load(one.port, asks_, wanted_, 1);
  Load other_load(other.port, asks_, wanted_, 2);
  EXPECT_TRUE(eventually([&] { return by_workers(one) > 0 && by_workers(other) > 0; }));
  for (const ReadyServer* each : {&one, &other}) {
    EXPECT_TRUE(eventually([&] {
      return workers_of(each->process.pid()).size() == static_cast<std::size_t>(num_workers());
    }));
  }
  load.stop();
  EXPECT_EQ(load.failure(), "");
  const std::vector<std::string> regions = regions_of(other.process.pid());
  expect_end(one, SIGINT);
  EXPECT_EQ(regions_of(other.process.pid()), regions);
  const std::int64_t before = by_workers(other);
  EXPECT_TRUE(eventually([&] { return by_workers(other) > before; }));
  other_load.stop();
  EXPECT_EQ(other_load.failure(), "");
  expect_end(other, SIGINT);
}

}  // namespace
}  // namespace tandem
