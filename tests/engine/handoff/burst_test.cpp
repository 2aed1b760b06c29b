// Adapters that are asked for together begin in the turns that the admission plans.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "tests/support/handoff_engine.h"

namespace tandem::test {
namespace {

constexpr int kAdapters = 6;
constexpr double kLinkGbps = 0.002;  // a load takes many steps

// Those whose prompts are in it; the others go on, with a row each.
std::size_t num_beginning(const PlanRequest& request) {
  return static_cast<std::size_t>(
      std::count_if(request.adapters.begin(), request.adapters.end(),
                    [](const ColdAdapter& adapter) { return adapter.rows > 1; }));
}

// Waits for every layer. A step takes as long as `seconds` says for the number of those that
// begin in it.
HandoffPlan wait_for_all(const PlanRequest& request, double (*seconds)(std::size_t)) {
  HandoffPlan plan;
  for (const ColdAdapter& adapter : request.adapters) {
    plan.choices.emplace_back(adapter.layers.size(), LayerChoice::wait);
  }
  plan.layer_ends.assign(
      request.adapters.front().layers.size(),
      request.starts_in + seconds(std::max<std::size_t>(1, num_beginning(request))));
  return plan;
}

// The most adapters of a burst that begin in one step.
std::size_t most_in_a_step(double (*seconds)(std::size_t)) {
  std::atomic<std::size_t> most = 0;
  auto served = HandoffEngine::make(
      AdapterMode::planned, kAdapters, kLinkGbps, 0, [&](EngineOptions& options) {
        options.handoff.plan = [&](const CostModel&, const PlanRequest& request) {
          // Of a step that is planned the link is no matter any more: loads have their times.
          if (request.link_busy_for == 0 && !request.adapters.front().a_arrives.empty()) {
            most = std::max(most.load(), num_beginning(request));
          }
          return wait_for_all(request, seconds);
        };
      });
  auto oracle = HandoffEngine::make(AdapterMode::cached, kAdapters);
  std::vector<std::unique_ptr<Generation>> running;
  for (int i = 0; i < kAdapters; ++i) {
    running.push_back(served->engine->submit(handoff_request(i, 9 + i, 4)).value());
  }
  for (int i = 0; i < kAdapters; ++i) {
    const auto wanted = collect(*oracle->engine->submit(handoff_request(i, 9 + i, 4)).value());
    const auto got = collect(*running[static_cast<std::size_t>(i)]);
    EXPECT_TRUE(got.front().error.ok()) << got.front().error.message();
    EXPECT_EQ(got.front().tokens, wanted.front().tokens) << "adapter " << i;
  }
  return most;
}

TEST(Burst, BeginsAStepEachWhereStepsOfSeveralTakeLong) {
  EXPECT_EQ(most_in_a_step([](std::size_t n) { return 1e-3 * static_cast<double>(n * n); }), 1U);
}

TEST(Burst, BeginsAtOnceWhereStepsOfSeveralTakeNoLonger) {
  EXPECT_GT(most_in_a_step([](std::size_t) { return 1e-3; }), 1U);
}

}  // namespace
}  // namespace tandem::test
