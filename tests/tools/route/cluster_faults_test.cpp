// Tests a cluster under faults: engines, routers and nodes of etcd are killed, stopped and cut off,
// and the registry's disk fills up, while clients read streams. No request fails as long as an
// engine and a router are left, and every stream equals that of an undisturbed engine.
//
//  TANDEM_TEST_CHAOS_SECONDS=600  duration of random faults; default: each fault once
//  TANDEM_TEST_SEED=1             seed of the faults; printed by each run
//  TANDEM_TEST_PROGRAM=FILE       the `tandem` to test; default: this build's
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/scheduler/cluster/registry/etcd_process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_seed.h"
#include "tests/tools/crowd.h"
#include "tests/tools/route/cluster_load.h"
#include "tests/tools/route/fleet.h"
#include "tests/tools/serve/private_shm.h"

namespace tandem {
namespace {

using std::chrono::steady_clock;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kTokens = 12;
constexpr int kClients = 2;
constexpr double kHeartbeatS = 4;  // long, because engines on a busy machine are sometimes silent
#else
constexpr int kTokens = 24;
constexpr int kClients = 4;
constexpr double kHeartbeatS = 1;
#endif
constexpr std::size_t kEngines = 2;
constexpr std::size_t kRouters = 2;

class ClusterFaults : public ::testing::Test {
 protected:
  void start(const std::string& registry) {
    fleet_ = std::make_unique<Fleet>(registry, kHeartbeatS);
    for (std::size_t i = 0; i < kEngines; ++i) fleet_->start_engine(i);
    for (std::size_t i = 0; i < kRouters; ++i) fleet_->start_router(i);
    ASSERT_TRUE(eventually([&] { return fleet_->whole(kEngines); })) << fleet_->logs();
    std::vector<StreamCall> calls = stream_calls(kTokens);
    std::vector<Told> right;
    for (const StreamCall& call : calls) {
      const StreamAnswer answer = ask_stream(fleet_->engine_port(0), call);
      ASSERT_TRUE(answer.whole && answer.told.done && answer.told.wrong.empty())
          << answer.head << answer.told;
      right.push_back(answer.told);
    }
    load_ =
        std::make_unique<ClusterLoad>(fleet_->router_ports(), std::move(calls), std::move(right));
    load_->begin(kClients, static_cast<unsigned>(test_seed()));
    ASSERT_TRUE(gets_on()) << trouble();
    report("undisturbed");
  }
  void TearDown() override {
    if (load_ == nullptr) return;
    load_->stop();
    EXPECT_FALSE(load_->failed()) << trouble();
    std::printf("%d streams, each as it should be; %d asked again at the other router\n",
                load_->served(), load_->asked_again());
  }

  // Waits until some more streams have begun and ended despite the present fault.
  bool gets_on() {
    const int wanted = load_->served() + 2 * kClients;
    return eventually([&] { return load_->served() >= wanted || load_->failed(); },
                      [&] { fleet_->read_logs(); }) &&
           !load_->failed();
  }
  bool is_whole() {
    return eventually([&] { return fleet_->whole(kEngines) || load_->failed(); }) &&
           !load_->failed();
  }
  // Waits for `text` in the log after `said_before_`.
  bool comes_to_say(const Process& process, const std::string& text) {
    const auto place = [&] { return process.error().find(text, said_before_); };
    return eventually([&] { return place() != std::string::npos; }, [&] { fleet_->read_logs(); });
  }
  // A router logs a registry loss once, and may still be recovering from an earlier fault.
  bool hears_of_the_registry(const Process& router) {
    const auto at = [&](const char* text) { return router.error().rfind(text) + 1; };  // 0: never
    return eventually([&] { return at("registry: etcd:") <= at("the registry answers again"); },
                      [&] { fleet_->read_logs(); });
  }
  std::string trouble() { return load_->failure() + fleet_->logs(); }
  void report(const char* fault) const {
    const std::chrono::duration<double> passed = steady_clock::now() - begin_;
    std::printf("%6.2f s  %s: a stream was silent for %.2f s at most\n", passed.count(), fault,
                load_->take_longest_silence_s());
    std::fflush(stdout);
  }
  // Causes a fault, lets clients work with it, and repairs it.
  void suffer(const char* fault, const std::function<void()>& harm,
              const std::function<void()>& mend) {
    if (HasFatalFailure()) return;
    (void)load_->take_longest_silence_s();
    harm();
    ASSERT_TRUE(gets_on()) << fault << ": " << trouble();
    report(fault);
    mend();
    ASSERT_TRUE(is_whole()) << fault << ", mended: " << trouble();
    ASSERT_TRUE(gets_on()) << fault << ", mended: " << trouble();
    report("mended");
  }

  std::unique_ptr<Fleet> fleet_;
  std::unique_ptr<ClusterLoad> load_;
  const steady_clock::time_point begin_ = steady_clock::now();
  std::size_t said_before_ = 0;  // length of the log before the fault
};

class EtcdFaults : public ClusterFaults {
 protected:
  void kill_an_engine(std::size_t i) {
    suffer(
        "kill -9 of an engine", [&] { fleet_->kill_engine(i); }, [&] { fleet_->start_engine(i); });
  }
  void kill_a_router(std::size_t i) {
    suffer(
        "kill -9 of a router", [&] { fleet_->kill_router(i); }, [&] { fleet_->start_router(i); });
  }
  void kill_a_node(std::size_t i) {
    suffer(
        "kill -9 of a node of etcd", [&] { etcd_->kill_member(i); },
        [&] { etcd_->start_member(i); });
  }
  // An engine that starts while one of three nodes is missing is found nevertheless.
  void kill_the_leader(std::size_t engine) {
    const std::size_t leader = etcd_->leader();
    suffer(
        "kill -9 of etcd's leader and of an engine",
        [&] {
          fleet_->kill_engine(engine);
          etcd_->kill_member(leader);
        },
        [&] { fleet_->start_engine(engine); });
    etcd_->start_member(leader);
  }
  void lose_the_registry() {
    suffer(
        "kill -9 of all of etcd",
        [&] {
          EXPECT_TRUE(hears_of_the_registry(fleet_->router(0))) << fleet_->logs();
          said_before_ = fleet_->router(0).error().size();
          for (std::size_t i = 0; i < kNodes; ++i) etcd_->kill_member(i);
          EXPECT_TRUE(comes_to_say(fleet_->router(0), "registry: etcd:")) << fleet_->logs();
        },
        [&] {
          for (std::size_t i = 0; i < kNodes; ++i) etcd_->start_member(i);
          EXPECT_TRUE(comes_to_say(fleet_->router(0), "the registry answers again"))
              << fleet_->logs();
        });
  }
  void cut_a_wire(std::size_t engine) {
    suffer(
        "a partition between routers and an engine",
        [&] {
          fleet_->wire(engine).cut();
          ASSERT_TRUE(eventually([&] { return fleet_->whole(kEngines - 1); })) << trouble();
        },
        [&] { fleet_->wire(engine).heal(); });
  }
  void stop_an_engine(std::size_t i) {
    suffer(
        "an engine that stands still",
        [&] {
          fleet_->engine(i).send_signal(SIGSTOP);
          ASSERT_TRUE(eventually([&] { return fleet_->whole(kEngines - 1); })) << trouble();
        },
        [&] { fleet_->engine(i).send_signal(SIGCONT); });
  }

  static constexpr std::size_t kNodes = 3;
  std::unique_ptr<testing::EtcdCluster> etcd_ = testing::EtcdCluster::start(kNodes);
};

TEST_F(EtcdFaults, CostNoRequestAndNoWord) {
  if (etcd_ == nullptr) GTEST_SKIP() << "no etcd is installed";
  start(etcd_->url());
  const char* const given = std::getenv("TANDEM_TEST_CHAOS_SECONDS");
  if (given == nullptr) {
    kill_the_leader(0);
    kill_a_router(0);
    cut_a_wire(1);
    stop_an_engine(0);
    lose_the_registry();
    return;
  }
  std::mt19937 random(static_cast<unsigned>(test_seed()));
  const auto end = steady_clock::now() + std::chrono::seconds(std::atoi(given));
  while (steady_clock::now() < end && !HasFailure()) {
    const std::size_t engine = random() % kEngines;
    switch (random() % 7) {
      case 0:
        kill_an_engine(engine);
        break;
      case 1:
        kill_a_router(random() % kRouters);
        break;
      case 2:
        kill_a_node(random() % kNodes);
        break;
      case 3:
        kill_the_leader(engine);
        break;
      case 4:
        cut_a_wire(engine);
        break;
      case 5:
        stop_an_engine(engine);
        break;
      default:
        lose_the_registry();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 1000));
  }
}

class SqliteFaults : public ClusterFaults {};

TEST_F(SqliteFaults, AFullDiskUnderTheRegistryCostsNoRequest) {
  if (const std::string why = make_shm_private(std::size_t{32} << 20); !why.empty()) {
    GTEST_SKIP() << why;
  }
  start("sqlite:/dev/shm/registry.db");
  {
    const FullShm full;
    suffer(
        "a full disk under the registry",
        [&] { EXPECT_TRUE(comes_to_say(fleet_->engine(0), "disk is full")) << fleet_->logs(); },
        [] {});
  }
  EXPECT_TRUE(comes_to_say(fleet_->engine(0), "the registry answers again")) << fleet_->logs();
}

}  // namespace
}  // namespace tandem
