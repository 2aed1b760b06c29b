// Requests wait for a place in the batch of a real engine: which are given up, and which go first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/loader/weights.h"
#include "engine/model/families/registry.h"
#include "tests/support/gated_device.h"
#include "tests/support/test_engine.h"

namespace tandem::test {
namespace {

using testing::ElementsAre;

// The demo model on a device that the test can stop, with a clock that the test moves.
class WaitingTest : public ::testing::Test {
 protected:
  void start(const std::function<void(EngineOptions&)>& adjust) {
    const std::filesystem::path dir = "data/demo-llama";
    config_ = load_model_spec(dir).value();
    tokenizer_ = Tokenizer::load(dir).value();
    EngineOptions options = small_engine_options();
    options.prefix_cache = false;
    adjust(options);
    auto created = Engine::create(options, config_, *open_checkpoint(dir).value(), DType::f32,
                                  device_, *tokenizer_, clock_, nullptr);
    ASSERT_TRUE(created.ok()) << created.status().message();
    engine_ = std::move(created).value();
    for (const char* name : {"python", "license"}) {
      ASSERT_TRUE(
          engine_->load_adapter(name, (dir / "adapters" / name).string(), false, false).ok());
      // Loads it onto the device, so that later requests do not wait for a load.
      ASSERT_EQ(run(*engine_, greedy({0, 5}, 1, name))[0].finish, FinishReason::length);
    }
    device_.gate().hold();
  }
  void TearDown() override { device_.gate().let_go(); }

  // Returns the request's number in the order of submission.
  std::size_t submit(const GenerationRequest& request) {
    const std::size_t number = running_.size();
    running_.push_back(engine_->submit(request).value());
    running_.back()->on_news([this, number] {
      const std::lock_guard lock(mutex_);
      if (std::find(begun_.begin(), begun_.end(), number) == begun_.end()) begun_.push_back(number);
    });
    return number;
  }
  std::size_t submit(const std::string& tenant, const std::string& adapter = "") {
    GenerationRequest request = greedy({0, 5}, 2, adapter);
    request.tenant = tenant;
    return submit(request);
  }
  // Lets the device run until all have ended; returns their numbers in the order of first tokens.
  std::vector<std::size_t> order() {
    device_.gate().let_go();
    for (const auto& each : running_) EXPECT_EQ(collect(*each)[0].finish, FinishReason::length);
    const std::lock_guard lock(mutex_);
    return begun_;
  }

  GatedDevice device_;
  ModelSpec config_;
  std::unique_ptr<Tokenizer> tokenizer_;
  ManualClock clock_;
  std::mutex mutex_;
  std::vector<std::size_t> begun_;  // guarded by mutex_
  std::unique_ptr<Engine> engine_;
  std::vector<std::unique_ptr<Generation>> running_;  // destroyed first
};

TEST_F(WaitingTest, GivesUpThoseAloneWhoseFirstTokenWouldComeTooLate) {
  start([](EngineOptions& options) { options.max_num_seqs = 1; });
  auto first = engine_->submit(greedy({0, 5}, 30)).value();
  GenerationRequest hurried = greedy({0, 5}, 3);
  hurried.ttft_deadline_s = 0.5;
  hurried.n = 2;
  auto late = engine_->submit(hurried).value();
  hurried.ttft_deadline_s = 100;
  auto patient = engine_->submit(hurried).value();
  auto unhurried = engine_->submit(greedy({0, 5}, 3)).value();
  clock_.advance(std::chrono::seconds(1));
  device_.gate().let_go();
  for (int i = 0; i < 2; ++i) {
    const std::optional<OutputDelta> delta = late->next(std::chrono::minutes(1));
    ASSERT_TRUE(delta);
    EXPECT_EQ(delta->finish, FinishReason::failed);
    EXPECT_EQ(delta->error.code(), StatusCode::resource_exhausted);
    EXPECT_THAT(delta->error.message(), testing::HasSubstr("500 ms"));
    EXPECT_GE(delta->retry_after_s, 1);
    EXPECT_LE(delta->retry_after_s, 60);
  }
  EXPECT_TRUE(late->done());
  EXPECT_EQ(late->stats().completion_tokens, 0);
  for (auto* each : {&first, &patient, &unhurried}) {
    for (const Collected& got : collect(**each)) EXPECT_EQ(got.finish, FinishReason::length);
  }
  const EngineStats stats = engine_->stats();
  EXPECT_EQ(stats.aborts_expired, 2U);
  EXPECT_EQ(stats.aborts_unreachable, 0U);
  EXPECT_EQ(stats.waiting, 0);
}

TEST_F(WaitingTest, GoesByArrivalWhereNothingElseIsAskedFor) {
  start([](EngineOptions& options) { options.max_num_seqs = 1; });
  for (int i = 0; i < 6; ++i) submit("busy", i % 2 == 0 ? "python" : "license");
  submit("quiet");
  EXPECT_THAT(order(), ElementsAre(0, 1, 2, 3, 4, 5, 6));
}

TEST_F(WaitingTest, LetsTenantsTakeTurns) {
  start([](EngineOptions& options) {
    options.max_num_seqs = 1;
    options.line.fair = true;
  });
  for (int i = 0; i < 50; ++i) submit("busy");
  const std::size_t quiet = submit("quiet");
  const std::vector<std::size_t> begun = order();
  ASSERT_EQ(begun.size(), 51U);
  // It is behind the first one and at most one other, because it begins at the other's counter.
  EXPECT_LE(std::find(begun.begin(), begun.end(), quiet) - begun.begin(), 2);
  EXPECT_EQ(engine_->stats().tenants, 0);
}

TEST_F(WaitingTest, KeepsABatchToItsAdaptersAndNobodyWaitingBeyondTheBound) {
  start([](EngineOptions& options) {
    options.max_num_seqs = 2;
    options.line.adapter_clusters = 1;
    options.line.max_passed_over = 3;
  });
  // Adapter python has one place the whole time; the requests compete for the other.
  submit(greedy({0, 5}, 100, "python"));
  submit("", "python");
  const std::size_t other = submit("", "license");
  for (int i = 0; i < 6; ++i) submit("", "python");
  EXPECT_THAT(order(), ElementsAre(0, 1, 3, 4, 5, other, 6, 7, 8));
}

}  // namespace
}  // namespace tandem::test
