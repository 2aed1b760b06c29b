// Sleeping workers are woken when there may be work for them, and only then.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>

#include "tests/support/handoff_engine.h"

namespace tandem::test {
namespace {

constexpr int kAdapters = 8;

struct Served {
  double worker_wake_s = 0;
  std::uint64_t cpu_layers = 0;
};

// Sends cold requests one after another, far enough apart for workers to sleep in between.
Served serve_cold(double link_gbps, const std::function<void(EngineOptions&)>& adjust) {
  auto served = HandoffEngine::make(AdapterMode::planned, kAdapters, link_gbps, 0, adjust);
  served->open();
  Served what;
  for (int i = 0; i < kAdapters; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const auto answer = collect(*served->engine->submit(handoff_request(i, 8, 2)).value());
    EXPECT_TRUE(answer.front().error.ok()) << answer.front().error.message();
    what.worker_wake_s =
        std::max(what.worker_wake_s, served->engine->learned_costs().worker_wake_s);
    served->settle(i);
  }
  what.cpu_layers = served->engine->stats().handoff_cpu_layers;
  return what;
}

TEST(Wake, WakesWorkersForAColdStartAndLearnsHowLongTheyTake) {
  const Served served = serve_cold(0.002, nullptr);
  EXPECT_GT(served.cpu_layers, 0U);
  EXPECT_GT(served.worker_wake_s, 0);
  EXPECT_LE(served.worker_wake_s, 0.02);
}

TEST(Wake, LeavesWorkersAsleepWhereWaitingCostsNothing) {
  const Served served = serve_cold(0, [](EngineOptions& options) {
    options.handoff.costs.link_bytes_per_s = 1e15;
    options.handoff.costs.copy_s = 0;
  });
  EXPECT_EQ(served.cpu_layers, 0U);
  EXPECT_EQ(served.worker_wake_s, 0);
}

}  // namespace
}  // namespace tandem::test
