// An engine measures loads, steps and handovers before it serves requests.
#include "engine/executor/calibration.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/handoff_engine.h"
#include "tests/support/sanitized.h"

namespace tandem::test {
namespace {

std::unique_ptr<HandoffEngine> calibrated(double link_gbps, int adapters, double seconds = 20,
                                          const std::function<void(EngineOptions&)>& adjust = {}) {
  return HandoffEngine::make(
      AdapterMode::planned, adapters, link_gbps, 0,
      [&](EngineOptions& options) {
        options.calibrate_s = seconds;
        options.handoff.costs = {};
        if (adjust) adjust(options);
      },
      small_model(8));
}

// The link has 0.05 GB/s where the costs say 5.5, and a delay per copy. Without the delay, the
// emulated link could make up for oversleeping (LinkPacer::kCredit) in a load's last pieces.
std::unique_ptr<HandoffEngine> over_slow_link() {
  return calibrated(0.05, 0, 20,
                    [](EngineOptions& options) { options.handoff.costs.link_bytes_per_s = 5.5e9; });
}

std::size_t count(const FactorTracker::Lessons& lessons) {
  std::size_t count = 0;
  for (const auto& bucket : lessons) count += bucket.size();
  return count;
}

TEST(Calibration, LearnsOfLoadsLayersAndBothKindsOfHandover) {
  const auto served = calibrated(0.2, 0);
  const CostLessons lessons = served->engine->lessons()->costs;
  EXPECT_FALSE(lessons.link.empty());
  EXPECT_GE(count(lessons.layers), 9U);
  EXPECT_GT(count(lessons.stalls[0]) + count(lessons.stalls[1]), 0U) << "whole deltas";
  EXPECT_GT(count(lessons.stalls[2]) + count(lessons.stalls[3]), 0U) << "x A^T";
}

TEST(Calibration, TellsPeopleWhatItLearned) {
  const auto served = over_slow_link();
  const CostLessons lessons = served->engine->lessons()->costs;
  const LearnedCosts learned = served->engine->learned_costs();
  ASSERT_EQ(learned.factors.size(), 2 + kNumStallKinds);
  std::uint64_t remembered = 0;
  for (const LearnedCosts::Factor& factor : learned.factors) remembered += factor.lessons;
  EXPECT_GE(learned.lessons, remembered);
  EXPECT_GT(remembered, 0U);
  const LearnedCosts::Factor& link = learned.factors[0];
  EXPECT_EQ(link.of, "link");
  EXPECT_EQ(link.lessons, lessons.link.size());
  EXPECT_GT(link.factor, 20) << "0.05 GB/s where the figures say 5.5";
  const LearnedCosts::Factor& layers = learned.factors[1];
  EXPECT_EQ(layers.of, "layers");
  EXPECT_EQ(layers.lessons, count(lessons.layers));
  const auto [least, most] = std::ranges::minmax(layers.by_size);
  EXPECT_GE(layers.factor, least);
  EXPECT_LE(layers.factor, most);
  for (std::size_t i = 0; i < kNumStallKinds; ++i) {
    EXPECT_EQ(learned.factors[2 + i].of, kStallNames[i]);
    EXPECT_EQ(learned.factors[2 + i].lessons, count(lessons.stalls[i]));
  }
}

TEST(Calibration, FindsOutHowSlowTheLinkIs) {
  const auto served = over_slow_link();
  CostLearner learner;
  learner.restore(served->engine->lessons()->costs);
  EXPECT_GT(learner.factors().link, 20);
  EXPECT_LT(learner.factors().link, 180);
}

TEST(Calibration, LeavesNothingBehind) {
  const auto served = calibrated(0, 0);
  Engine& engine = *served->engine;
  EXPECT_TRUE(engine.adapters().empty());
  EXPECT_EQ(engine.adapter_store().host_tier().used(), 0U);
  const auto answer = collect(*engine.submit(handoff_request(-1, 9, 4)).value());
  EXPECT_TRUE(answer.front().error.ok());
  const EngineStats stats = engine.stats();
  EXPECT_EQ(stats.adapter_loads, 0U);
  EXPECT_EQ(stats.adapter_evictions, 0U);
  EXPECT_EQ(stats.handoff_steps, 0U);
  EXPECT_EQ(stats.handoff_rows, 0U);
  EXPECT_EQ(stats.pages_free, stats.pages_total);
}

TEST(Calibration, OfTwoDevicesThatShareTheModelLearnsAndBreaksNothing) {
  const auto served = HandoffEngine::make(
      AdapterMode::planned, 0, 0, 0,
      [](EngineOptions& options) {
        options.calibrate_s = 20;
        options.handoff.costs = {};
        options.handoff.max_rows = 64;
      },
      small_model(12), 2);
  const CostLessons lessons = served->engine->lessons()->costs;
  EXPECT_GT(count(lessons.stalls[0]) + count(lessons.stalls[1]), 0U) << "whole deltas";
  EXPECT_GT(count(lessons.stalls[2]) + count(lessons.stalls[3]), 0U) << "x A^T";
}

TEST(Calibration, ChangesNoAnswer) {
  constexpr int kAdapters = 4;
  const auto served = calibrated(0.01, kAdapters, 1);
  const auto oracle =
      HandoffEngine::make(AdapterMode::cached, kAdapters, 0, 0, nullptr, small_model(8));
  for (int i = 0; i < kAdapters; ++i) {
    const auto wanted = collect(*oracle->engine->submit(handoff_request(i, 9 + i, 6)).value());
    const auto got = collect(*served->engine->submit(handoff_request(i, 9 + i, 6)).value());
    EXPECT_TRUE(got.front().error.ok()) << got.front().error.message();
    EXPECT_EQ(got.front().tokens, wanted.front().tokens) << "adapter " << i;
  }
}

TEST(Calibration, MakesDoWithWhatRoomThereIs) {
  const auto served = calibrated(0, 0, 20, [](EngineOptions& options) {
    options.num_pages = 64;
    options.max_model_len = 128;
    options.max_device_adapters = 1;
  });
  const auto answer = collect(*served->engine->submit(handoff_request(-1, 9, 4)).value());
  EXPECT_TRUE(answer.front().error.ok());
  EXPECT_GT(count(served->engine->lessons()->costs.layers), 0U);
}

TEST(Calibration, PutsNoMoreSequencesIntoAStepThanMayBe) {
  const auto served =
      calibrated(0, 0, 20, [](EngineOptions& options) { options.max_num_seqs = 1; });
  EXPECT_GT(count(served->engine->lessons()->costs.layers), 0U);
}

// Loads are held back behind layers for which workers have no room: the step waits for them, so
// their stream gets more pieces than it has room for.
TEST(Calibration, LetsLoadsGoThatAStepHasToWaitFor) {
  const auto served = HandoffEngine::make(
      AdapterMode::planned, 0, 0, 0,
      [](EngineOptions& options) {
        options.calibrate_s = sanitized() ? 5 : 20;
        options.handoff.costs = {};
        options.handoff.max_rows = 64;
      },
      small_model(80));
  EXPECT_GT(count(served->engine->lessons()->costs.layers), 0U);
}

TEST(Calibration, EndsWhenItsTimeIsOver) {
  const auto served = calibrated(0, 0, 1e-9);
  const CostLessons lessons = served->engine->lessons()->costs;
  EXPECT_TRUE(lessons.link.empty());
  EXPECT_LT(count(lessons.layers), 5U);
  for (const auto& stalls : lessons.stalls) EXPECT_EQ(count(stalls), 0U);
}

}  // namespace
}  // namespace tandem::test
