// Adapters that are requested together begin in the steps that the admission has planned.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/handoff_engine.h"

namespace tandem::test {
namespace {

constexpr int kAdapters = 6;
constexpr double kLinkGbps = 0.002;  // a load takes many steps

// Counts adapters whose prompts are in the step; the others continue with one row each.
std::size_t num_beginning(const PlanRequest& request) {
  return static_cast<std::size_t>(
      std::count_if(request.adapters.begin(), request.adapters.end(),
                    [](const ColdAdapter& adapter) { return adapter.rows > 1; }));
}

// A planner that waits for every layer. `seconds` gives the duration of a step by the number of
// adapters that begin in it.
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

// True for requests to plan a step, not an admission. For a step the link no longer matters: loads
// have known arrival times, and at least one is still on its way.
bool is_of_a_step(const PlanRequest& request) {
  const auto is_late = [](double time) { return time > 0; };
  return request.link_busy_for == 0 &&
         std::ranges::none_of(request.adapters,
                              [](const auto& each) { return each.a_arrives.empty(); }) &&
         std::ranges::any_of(request.adapters, [&](const auto& each) {
           return std::ranges::any_of(each.a_arrives, is_late);
         });
}

// Returns the largest number of adapters of a burst that begin in one step. The engine plans
// nothing until all of the burst have been submitted.
std::size_t most_in_a_step(double (*seconds)(std::size_t)) {
  std::atomic<std::size_t> most = 0;
  std::promise<void> submitted;
  const std::shared_future<void> all = submitted.get_future().share();
  auto served = HandoffEngine::make(
      AdapterMode::planned, kAdapters, kLinkGbps, 0, [&](EngineOptions& options) {
        options.handoff.plan = [&](const CostModel&, const PlanRequest& request) {
          all.wait_for(std::chrono::seconds(10));
          if (is_of_a_step(request)) {
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
  submitted.set_value();
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

// The second request comes while the first one's load is being ordered, which may take long.
TEST(Burst, TakesInWhoComesWhileLoadsAreOrdered) {
  Engine* engine = nullptr;
  std::unique_ptr<Generation> second;
  std::vector<std::size_t> sizes;  // number of adapters of each plan, in order
  auto served =
      HandoffEngine::make(AdapterMode::planned, 2, kLinkGbps, 0, [&](EngineOptions& options) {
        options.handoff.plan = [&](const CostModel&, const PlanRequest& request) {
          if (sizes.empty()) second = engine->submit(handoff_request(1, 9, 2)).value();
          sizes.push_back(request.adapters.size());
          return wait_for_all(request, [](std::size_t) { return 1e-3; });
        };
      });
  engine = served->engine.get();
  const auto first = served->engine->submit(handoff_request(0, 9, 2)).value();
  EXPECT_TRUE(collect(*first).front().error.ok());
  ASSERT_NE(second, nullptr) << "nothing was planned";
  EXPECT_TRUE(collect(*second).front().error.ok());
  served->engine.reset();  // its thread has ended then
  ASSERT_GE(sizes.size(), 2U);
  EXPECT_EQ(sizes[0], 1U);
  EXPECT_EQ(sizes[1], 2U) << "no step went without it";
}

}  // namespace
}  // namespace tandem::test
