// Steps are planned shortly before the current one ends, so that a request that arrives meanwhile
// is in the very next step. The test controls the clock and the device.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "engine/loader/weights.h"
#include "engine/model/families/registry.h"
#include "tests/support/gated_device.h"
#include "tests/support/test_engine.h"
#include "tests/support/test_seed.h"

namespace tandem::test {
namespace {

using std::chrono::milliseconds;

const std::filesystem::path kDemo = "data/demo-llama";
constexpr milliseconds kStep{1000};

class JustInTimeTest : public ::testing::Test {
 protected:
  // Starts the engine with one decoding sequence. Steps take a second, all timings are known, and
  // one step is running.
  void start(bool just_in_time) {
    config_ = load_model_spec(kDemo).value();
    tokenizer_ = Tokenizer::load(kDemo).value();
    EngineOptions options = small_engine_options();
    options.prefix_cache = false;
    options.just_in_time = just_in_time;
    auto created = Engine::create(options, config_, *open_checkpoint(kDemo).value(), DType::f32,
                                  device_, *tokenizer_, clock_, nullptr);
    ASSERT_TRUE(created.ok()) << created.status().message();
    engine_ = std::move(created).value();
    const std::filesystem::path python = kDemo / "adapters" / "python";
    ASSERT_TRUE(engine_->load_adapter("python", python.string(), false, false).ok());
    device_.gate().hold_steps();
    background_ = engine_->submit(greedy({0, 5}, 400)).value();
    end_steps(4, When::at_once);
    for (int i = 0; i < 3; ++i) {
      auto prompt = engine_->submit(greedy({0, 5, 9}, 1)).value();
      end_steps(1, When::at_once);
      end_steps(2, just_in_time ? When::in_time : When::at_once);
      EXPECT_EQ(collect(*prompt)[0].finish, FinishReason::length);
    }
    end_steps(10, just_in_time ? When::in_time : When::at_once);
  }
  void TearDown() override { device_.gate().let_go_steps(); }

  enum class When { at_once, in_time };
  // Ends `count` steps, each a second after it began; its result has been handed out. The next step
  // must be enqueued before that: at_once, before any time passes; in_time, whenever the engine
  // chooses.
  void end_steps(int count, When when = When::in_time) {
    constexpr milliseconds kSoonest = kStep - milliseconds(100);
    for (int i = 0; i < count; ++i) {
      const std::int64_t wanted = ended_ + 2;
      while (when == When::in_time && now() < ends_ && !wait_enqueued_or_seen(wanted)) {
        const milliseconds to = std::max(now() + milliseconds(10), ends_ - kStep + kSoonest);
        clock_.advance(std::min(to, ends_) - now());
      }
      ASSERT_TRUE(device_.gate().wait_enqueued(wanted)) << ended_ << " steps have ended";
      clock_.advance(std::max(milliseconds(0), ends_ - now()));
      end_step();
    }
  }
  // Returns true if `steps` steps are enqueued; false if the engine has since read the clock so
  // often that it knows the time and waits. This way the clock does not run ahead of an engine
  // thread that gets a core late.
  bool wait_enqueued_or_seen(std::int64_t steps) {
    constexpr std::uint64_t kLooks = 16;  // more than from the end of a step to the next wait
    const std::uint64_t before = clock_.times_asked();
    for (int i = 0; i < 60'000; ++i) {  // a minute
      if (device_.gate().wait_enqueued(steps, milliseconds(1))) return true;
      if (clock_.times_asked() >= before + kLooks) return false;
    }
    ADD_FAILURE() << "the engine looks at no clock any more";
    return true;
  }
  void end_step() {
    device_.gate().end_step();
    ++ended_;
    ends_ = now() + kStep;
    ASSERT_TRUE(background_->next(std::chrono::minutes(1)));  // each step yields a token
  }
  milliseconds now() const {
    return std::chrono::duration_cast<milliseconds>(clock_.now() - TimePoint());
  }
  double ttft_s(Generation& generation) {
    EXPECT_EQ(collect(generation)[0].finish, FinishReason::length);
    return generation.stats().ttft_s;
  }

  GatedDevice device_;
  ModelSpec config_;
  std::unique_ptr<Tokenizer> tokenizer_;
  ManualClock clock_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Generation> background_;  // destroyed first
  std::int64_t ended_ = 0;                  // number of steps
  milliseconds ends_{kStep};                // end of the running step
};

TEST_F(JustInTimeTest, WhoArrivesWhileAStepRunsJoinsTheVeryNext) {
  start(true);
  auto first = engine_->submit(greedy({0, 5, 9}, 1)).value();
  clock_.advance(kStep / 2);
  auto second = engine_->submit(greedy({0, 7}, 1)).value();
  end_steps(4);
  EXPECT_NEAR(ttft_s(*first), 2.0, 0.01) << "the step that ran, and their own";
  EXPECT_NEAR(ttft_s(*second), 1.5, 0.01);
  const EngineStats stats = engine_->stats();
  EXPECT_GE(stats.steps_in_time, 20U)
      << "each that end_steps() lets come in time, here and in start()";
  EXPECT_EQ(stats.steps_late, 0U);
  EXPECT_EQ(stats.gap_seconds_total, 0);
  EXPECT_GT(stats.enqueue_margin_s, 0);
  EXPECT_LT(stats.enqueue_margin_s, 0.1);
}

// For comparison, the same situation without just-in-time planning.
TEST_F(JustInTimeTest, WhoArrivesWaitsForTwoStepsThatAreEnqueuedAtOnce) {
  start(false);
  device_.gate().wait_enqueued(ended_ + 2);
  auto first = engine_->submit(greedy({0, 5, 9}, 1)).value();
  end_steps(4, When::at_once);
  EXPECT_NEAR(ttft_s(*first), 3.0, 0.01);
  const EngineStats stats = engine_->stats();
  EXPECT_EQ(stats.steps_in_time + stats.steps_late, 0U);
  EXPECT_EQ(stats.steps_at_once, static_cast<std::uint64_t>(ended_ + 1));
}

TEST_F(JustInTimeTest, AnswersAsAnEngineThatWaitsForEachStep) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE(::testing::Message() << "seed " << seed << " (TANDEM_TEST_SEED)");
  std::mt19937 random(seed);
  start(true);
  EngineOptions plain = small_engine_options();
  plain.overlap = false;
  auto other = TestEngine::load(kDemo, DType::f32, plain);
  std::vector<GenerationRequest> requests;
  std::vector<std::unique_ptr<Generation>> running;
  for (int i = 0; i < 24; ++i) {
    std::vector<TokenId> prompt = {0};
    while (random() % 8 != 0) prompt.push_back(static_cast<TokenId>(2 + random() % 400));
    GenerationRequest request = greedy(prompt, 1 + static_cast<std::int32_t>(random() % 12),
                                       random() % 2 == 0 ? "python" : "");
    if (random() % 2 == 0) request.sampling.temperature = 0.9;
    request.sampling.seed = random();
    if (random() % 3 == 0) request.sampling.repetition_penalty = 1.3;
    if (random() % 3 == 0) request.n = 2;
    requests.push_back(request);
    running.push_back(engine_->submit(request).value());
    if (random() % 2 == 0) clock_.advance(milliseconds(random() % 400));
    if (random() % 2 == 0) end_steps(1);
  }
  end_steps(40);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::vector<Collected> got = collect(*running[i]);
    const std::vector<Collected> want = run(*other->engine, requests[i]);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t k = 0; k < want.size(); ++k) {
      EXPECT_EQ(got[k].tokens, want[k].tokens) << "request " << i;
      EXPECT_EQ(got[k].text, want[k].text) << "request " << i;
    }
  }
  EXPECT_GT(engine_->stats().steps_in_time, 40U);
}

TEST_F(JustInTimeTest, ALoadBeginsWhenItsRequestArrives) {
  start(true);
  const auto loads = [&] { return engine_->stats().adapter_loads; };
  ASSERT_EQ(loads(), 0U);
  auto cold = engine_->submit(greedy({0, 5, 9}, 1, "python")).value();
  const auto tier = [&] { return engine_->adapters().front().tier; };
  while (tier() == "host") std::this_thread::yield();  // the clock does not advance
  end_steps(4);
  EXPECT_EQ(collect(*cold)[0].finish, FinishReason::length);
  EXPECT_EQ(loads(), 1U);
}

TEST_F(JustInTimeTest, WhoLeavesBeforeTheStepIsPlannedCostsNothing) {
  start(true);
  const std::uint64_t before = engine_->stats().prompt_tokens;
  auto gone = engine_->submit(greedy({0, 5, 9}, 100)).value();
  gone.reset();
  end_steps(3);
  EXPECT_EQ(engine_->stats().prompt_tokens, before);
}

TEST_F(JustInTimeTest, AStepThatEndsTooSoonIsHandedOutAtOnce) {
  start(true);
  clock_.advance(kStep / 2);
  end_step();  // it gets its token although the time for planning the next step never came
  end_steps(2);
}

TEST_F(JustInTimeTest, EndsWhileAStepIsHeldBack) {
  start(true);
  auto waiting = engine_->submit(greedy({0, 5, 9}, 400)).value();  // until the engine ends
  std::thread end([&] { engine_.reset(); });
  device_.gate().let_go_steps();
  end.join();
  EXPECT_EQ(collect(*waiting)[0].finish, FinishReason::cancelled);
}

}  // namespace
}  // namespace tandem::test
