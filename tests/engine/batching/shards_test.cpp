// An engine whose model is shared by several devices answers like one device, also with
// constraints, shared prefixes, and adapters that come and go; a device that fails delays others
// only briefly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/loader/weights.h"
#include "engine/model/families/registry.h"
#include "tests/support/failing_device.h"
#include "tests/support/small_model.h"
#include "tests/support/test_device.h"
#include "tests/support/test_engine.h"

namespace tandem::test {
namespace {

const std::filesystem::path kDemo = "data/demo-llama";

class Shards : public ::testing::Test {
 protected:
  std::unique_ptr<Engine> make(std::vector<Device*> devices) {
    const EngineOptions options = small_engine_options();
    auto created = Engine::create(options, config_, *open_checkpoint(kDemo).value(), DType::f32,
                                  devices, *tokenizer_, clock_, nullptr);
    EXPECT_TRUE(created.ok()) << created.status().message();
    return created ? std::move(created).value() : nullptr;
  }

  // Calls `body` for each of two devices: with an engine on both, its answer of `tokens` tokens,
  // and the device that is to fail.
  void with_each_failing(
      int tokens,
      const std::function<void(Engine&, FailingDevice&, const std::vector<TokenId>& want)>& body) {
    for (const std::size_t failing : {0U, 1U}) {
      SCOPED_TRACE(::testing::Message() << "device " << failing);
      FailingDevice first(make_test_device());
      FailingDevice second(make_test_device(1));
      const auto engine = make({&first, &second});
      ASSERT_NE(engine, nullptr);
      const std::vector<TokenId> want = run(*engine, greedy({0, 5, 9}, tokens))[0].tokens;
      body(*engine, failing == 0 ? first : second, want);
      EXPECT_TRUE(engine->failure().ok());
    }
  }

  const ModelSpec config_ = load_model_spec(kDemo).value();
  const std::unique_ptr<Tokenizer> tokenizer_ = Tokenizer::load(kDemo).value();
  SteadyClock clock_;
};

TEST_F(Shards, GiveTheTextsOfOneDeviceToEveryKindOfRequest) {
  const auto one = TestEngine::load(kDemo, DType::f32, small_engine_options());
  EngineOptions recorded = small_engine_options();
  recorded.max_graph_batch = 8;
  recorded.record_at_start = true;
  const auto two = TestEngine::load(kDemo, DType::f32, recorded, 2);
  std::vector<GenerationRequest> requests;
  for (const char* const adapter : {"", "python", "cheader", "docstring"}) {
    GenerationRequest request =
        greedy({0, 5, 9, 77, 300, 12, 5, 9, 1, 2, 3, 4, 6, 7, 8, 21, 22}, 20, adapter);
    requests.push_back(request);
    request.constraint = {TextConstraint::Kind::regex, "[a-z ]+"};
    requests.push_back(request);
    request.constraint = {};
    request.sampling.temperature = 0.9;
    request.sampling.seed = 11;
    request.sampling.repetition_penalty = 1.2;
    requests.push_back(request);
  }
  for (int turn = 0; turn < 2; ++turn) {  // round 1 finds prefixes
    std::vector<std::unique_ptr<Generation>> running;
    for (const GenerationRequest& request : requests) {
      running.push_back(two->engine->submit(request).value());
    }
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const Collected want = run(*one->engine, requests[i])[0];
      const Collected got = collect(*running[i])[0];
      EXPECT_EQ(got.tokens, want.tokens) << "request " << i << ", turn " << turn;
    }
  }
  EXPECT_GT(two->engine->stats().prefix_hits, 0U);
}

// Three devices have a KV head of zeros, and four two copies of each and heads of zeros.
TEST_F(Shards, NormTheHeadsOfAllDevicesTogether) {
  ModelSpec spec = small_model(2);
  for (LayerSpec& layer : spec.layers) {
    layer.attention.heads = 6;
    layer.attention.qk_norm = QkNorm::all_heads;
  }
  GenerationRequest request = greedy({5, 9, 77, 300, 12, 5, 9, 1, 2}, 8);
  request.num_logprobs = 0;
  const Collected want =
      run(*TestEngine::dummy(spec, DType::f32, small_engine_options())->engine, request)[0];
  EngineOptions recorded = small_engine_options();
  recorded.max_graph_batch = 8;
  recorded.record_at_start = true;
  for (const int num_devices : {2, 3, 4}) {
    SCOPED_TRACE(::testing::Message() << num_devices << " devices");
    const auto many = TestEngine::dummy(spec, DType::f32, recorded, num_devices);
    const Collected got = run(*many->engine, request)[0];
    ASSERT_EQ(got.tokens, want.tokens);
    for (std::size_t i = 0; i < got.logprobs.size(); ++i) {
      EXPECT_NEAR(got.logprobs[i].logprob, want.logprobs[i].logprob, 2e-4F) << i;
    }
  }
}

TEST_F(Shards, AStepThatFailsOnOneDeviceEndsItsRequestsAndTheEngineGoesOn) {
  with_each_failing(12, [](Engine& engine, FailingDevice& failing, const auto& want) {
    for (const int after : {0, 3}) {
      failing.fail_sample(after);
      const Collected got = run(engine, greedy({0, 5, 9}, 30))[0];
      EXPECT_EQ(got.finish, FinishReason::failed);
      EXPECT_THAT(got.error.message(), ::testing::HasSubstr("sample failed"));
      EXPECT_EQ(run(engine, greedy({0, 5, 9}, 12))[0].tokens, want);
      EXPECT_EQ(engine.stats().pages_kv, 0);
    }
  });
}

// It fails in the middle of a layer, where the others wait for it: its error is reported, not
// theirs.
TEST_F(Shards, AnOperationThatFailsOnOneDeviceIsWhatIsToldOfTheStep) {
  if (make_test_device()->info().is_cuda) GTEST_SKIP() << "a GPU is lost with what fails on it";
  with_each_failing(12, [](Engine& engine, FailingDevice& failing, const auto& want) {
    failing.fail_gemm(70, /*throws=*/false);
    const Collected got = run(engine, greedy({0, 5, 9}, 30))[0];
    EXPECT_EQ(got.finish, FinishReason::failed);
    EXPECT_THAT(got.error.message(), ::testing::HasSubstr("gemm on stream compute: out of cores"));
    EXPECT_EQ(run(engine, greedy({0, 5, 9}, 12))[0].tokens, want);
  });
}

// The engine computes the affected steps again, and clients notice nothing.
TEST_F(Shards, AnExceptionWhileOneDevicesStepIsEnqueuedCostsTimeAlone) {
  with_each_failing(30, [](Engine& engine, FailingDevice& failing, const auto& want) {
    failing.fail_gemm(100, /*throws=*/true);
    const Collected got = run(engine, greedy({0, 5, 9}, 30))[0];
    EXPECT_TRUE(got.error.ok()) << got.error.message();
    EXPECT_EQ(got.tokens, want);
  });
}

TEST_F(Shards, ADeviceThatIsLostEndsTheEngineWithOneError) {
  FailingDevice first(make_test_device());
  FailingDevice second(make_test_device(1));
  const auto engine = make({&first, &second});
  ASSERT_NE(engine, nullptr);
  auto running = engine->submit(greedy({0, 5, 9}, 400)).value();
  ASSERT_TRUE(running->next(std::chrono::minutes(1)).has_value());
  second.lose_context();
  const Collected got = collect(*running)[0];
  EXPECT_EQ(got.finish, FinishReason::failed);
  EXPECT_EQ(engine->failure().code(), StatusCode::fatal);
  EXPECT_THAT(engine->failure().message(), ::testing::HasSubstr("the context is lost"));
}

}  // namespace
}  // namespace tandem::test
