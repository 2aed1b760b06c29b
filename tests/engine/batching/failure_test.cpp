// If a step fails, its requests and those of the step enqueued behind it get an error; all others
// are not affected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "engine/loader/weights.h"
#include "engine/model/families/registry.h"
#include "tests/support/failing_device.h"
#include "tests/support/test_device.h"
#include "tests/support/test_engine.h"

namespace tandem::test {
namespace {

const std::filesystem::path kDemo = "data/demo-llama";

class StepFailure : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    config_ = load_model_spec(kDemo).value();
    tokenizer_ = Tokenizer::load(kDemo).value();
    EngineOptions options = small_engine_options();
    options.overlap = GetParam();
    auto created = Engine::create(options, config_, *open_checkpoint(kDemo).value(), DType::f32,
                                  device_, *tokenizer_, clock_, nullptr);
    ASSERT_TRUE(created.ok()) << created.status().message();
    engine_ = std::move(created).value();
  }

  FailingDevice device_{make_test_device()};
  ModelSpec config_;
  std::unique_ptr<Tokenizer> tokenizer_;
  SteadyClock clock_;
  std::unique_ptr<Engine> engine_;
};

TEST_P(StepFailure, EndsItsRequestsAndTheEngineGoesOn) {
  const std::vector<TokenId> want = run(*engine_, greedy({0, 5, 9}, 12))[0].tokens;
  for (const int after : {0, 1, 5}) {
    device_.fail_sample(after);
    std::vector<std::unique_ptr<Generation>> running;
    for (int i = 0; i < 3; ++i) {
      GenerationRequest request = greedy({0, 5, 9}, 30);
      // A constrained step is sampled after the step before it was handed out or has failed.
      if (i == 1) request.constraint = {TextConstraint::Kind::regex, "[a-z ]+"};
      running.push_back(engine_->submit(std::move(request)).value());
    }
    bool failed = false;
    for (auto& each : running) {
      const Collected got = collect(*each)[0];
      if (got.finish != FinishReason::failed) continue;  // it arrived after the failure
      failed = true;
      EXPECT_THAT(got.error.message(), ::testing::AnyOf(::testing::HasSubstr("sample failed"),
                                                        ::testing::HasSubstr("never given")));
      EXPECT_LE(got.tokens.size(), static_cast<std::size_t>(after));
    }
    EXPECT_TRUE(failed);
    EXPECT_EQ(run(*engine_, greedy({0, 5, 9}, 12))[0].tokens, want);
    const EngineStats stats = engine_->stats();
    EXPECT_EQ(stats.running, 0);
    EXPECT_EQ(stats.pages_kv, 0);
  }
  EXPECT_TRUE(engine_->failure().ok());
}

INSTANTIATE_TEST_SUITE_P(Ways, StepFailure, ::testing::Bool(), [](const auto& param) {
  return std::string(param.param ? "overlapped" : "one_by_one");
});

}  // namespace
}  // namespace tandem::test
