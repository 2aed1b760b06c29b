// The takeover from CPU workers to the device is forced between any two operations: the tokens are
// those of an engine that holds every adapter.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/handoff_engine.h"
#include "tests/support/sanitized.h"
#include "tests/support/test_seed.h"

namespace tandem::test {
namespace {

// Number of operations of a prefill and a decode step; the last boundaries are beyond both.
const int kStride = sanitized() ? 7 : 1;
constexpr int kBoundaries = 150;
constexpr int kPrompt = 6;
constexpr int kTokens = 3;

std::vector<TokenId> tokens_of(Generation& generation) {
  const Collected got = collect(generation)[0];
  EXPECT_TRUE(got.error.ok()) << got.error.message();
  return got.tokens;
}

class Takeover : public ::testing::TestWithParam<AdapterMode> {
 protected:
  static std::unique_ptr<HandoffEngine> make(
      int num_devices = 1, const std::function<void(EngineOptions&)>& adjust = nullptr) {
    return HandoffEngine::make(
        GetParam(), kBoundaries, 0, 0,
        [&](EngineOptions& options) {
          if (adjust) adjust(options);
        },
        handoff_config(), num_devices);
  }
  void SetUp() override { oracle_ = HandoffEngine::make(AdapterMode::cached, kBoundaries); }
  std::vector<TokenId> wanted(const GenerationRequest& request) {
    return run(*oracle_->engine, request)[0].tokens;
  }
  void of_several_groups(HandoffEngine& engine, int stride);
  std::unique_ptr<HandoffEngine> oracle_;
};

TEST_P(Takeover, BetweenAnyTwoOperationsAddsEveryDeltaOnce) {
  auto engine = make();
  for (int k = 0; k < kBoundaries; k += kStride) {
    SCOPED_TRACE(::testing::Message() << "after operation " << k);
    const GenerationRequest request = handoff_request(k, kPrompt, kTokens);
    engine->gate().close(k);
    const auto generation = engine->engine->submit(request).value();
    EXPECT_EQ(tokens_of(*generation), wanted(request));
    engine->settle(k);
  }
  EXPECT_FALSE(engine->gate().timed_out());
  const EngineStats stats = engine->engine->stats();
  EXPECT_GT(stats.handoff_cpu_layers, 0U);
  EXPECT_EQ(stats.handoff_timed_out, 0U);
  if (GetParam() == AdapterMode::planned) {
    EXPECT_GT(stats.handoff_gpu_layers, 0U);
  }
}

void Takeover::of_several_groups(HandoffEngine& engine, int stride) {
  for (int k = 0; k + 2 < kBoundaries; k += stride) {
    SCOPED_TRACE(::testing::Message() << "after operation " << k);
    const GenerationRequest requests[] = {handoff_request(k, 7, kTokens),
                                          handoff_request(k + 1, 1, kTokens),
                                          handoff_request(k + 2, 19, kTokens)};
    // All requests come while a step of the base model is held, and are in the next step.
    engine.gate().hold();
    const auto base = engine.engine->submit(handoff_request(-1, 3, 4)).value();
    engine.gate().close(k);
    std::vector<std::unique_ptr<Generation>> running;
    for (const GenerationRequest& request : requests) {
      running.push_back(engine.engine->submit(request).value());
    }
    engine.gate().let_go();
    for (std::size_t i = 0; i < running.size(); ++i) {
      SCOPED_TRACE(::testing::Message() << "group " << i);
      EXPECT_EQ(tokens_of(*running[i]), wanted(requests[i]));
    }
    (void)collect(*base);
    for (int i = 0; i < 3; ++i) engine.settle(k + i);
  }
  EXPECT_FALSE(engine.gate().timed_out());
  EXPECT_EQ(engine.engine->stats().handoff_timed_out, 0U);
}

// The loads to both devices are held behind operations of their own: whichever arrives first, both
// take over at the same layer. The second device's load arrives in the first step: if the first
// device has all of an adapter, a step may wait for the second one's rest, which would wait for the
// step.
TEST_P(Takeover, OnTwoDevicesThatShareTheModelIsAtTheSameLayerOnBoth) {
  auto engine = make(2);
  std::mt19937 random(static_cast<std::mt19937::result_type>(test_seed()));
  std::uniform_int_distribution<int> boundary(0, 30);
  for (int k = 1; k < kBoundaries; k += 2 * kStride) {
    const int other = boundary(random);
    SCOPED_TRACE(::testing::Message() << "after operations " << k << " and " << other);
    const GenerationRequest request = handoff_request(k, kPrompt, kTokens);
    engine->gate().close(k);
    engine->second->gate().close(other);
    const auto generation = engine->engine->submit(request).value();
    EXPECT_EQ(tokens_of(*generation), wanted(request));
    engine->settle(k);
  }
  EXPECT_FALSE(engine->gate().timed_out() || engine->second->gate().timed_out());
  const EngineStats stats = engine->engine->stats();
  EXPECT_GT(stats.handoff_cpu_layers, 0U);
  EXPECT_EQ(stats.handoff_timed_out, 0U);
}

TEST_P(Takeover, OfSeveralGroupsInOneStep) {
  of_several_groups(*make(), 3 * kStride);
}

TEST_P(Takeover, OfSeveralGroupsOnTwoNodesInOneStep) {
  const auto engine = make(1, on_two_nodes);
  const HostTier& host = engine->engine->adapter_store().host_tier();
  ASSERT_EQ(host.num_arenas(), 2U);
  of_several_groups(*engine, 9 * kStride);
  EXPECT_GT(engine->engine->stats().handoff_cpu_layers, 0U);
}

// A host with a GPU at each of two sockets: both devices accept from both mailboxes.
TEST_P(Takeover, OfSeveralGroupsOnTwoNodesAndTwoDevices) {
  const auto engine = make(2, on_two_nodes);
  ASSERT_EQ(engine->engine->adapter_store().host_tier().num_arenas(), 2U);
  of_several_groups(*engine, std::min(27 * kStride, kBoundaries / 3));  // beyond the first step
  EXPECT_FALSE(engine->second->gate().timed_out());
  EXPECT_GT(engine->engine->stats().handoff_cpu_layers, 0U);
}

// A layer without keys has one module less at its first site, and modules of inputs by layer are
// whole on each device, or outside of layers.
TEST_P(Takeover, OfInputsByLayerAndSharedKeysAddsEveryDeltaOnce) {
  const ModelSpec config = small_model_with_layer_inputs();
  const auto oracle = HandoffEngine::make(AdapterMode::cached, kBoundaries, 0, 0, nullptr, config);
  for (const int num_devices : {1, 2}) {
    const auto engine =
        HandoffEngine::make(GetParam(), kBoundaries, 0, 0, nullptr, config, num_devices);
    for (int k = 0; k < kBoundaries; k += 7 * kStride) {
      SCOPED_TRACE(::testing::Message() << num_devices << " devices, after operation " << k);
      const GenerationRequest request = handoff_request(k, kPrompt, kTokens);
      engine->gate().close(k);
      if (num_devices == 2) engine->second->gate().close(k % 30);
      const auto generation = engine->engine->submit(request).value();
      EXPECT_EQ(tokens_of(*generation), run(*oracle->engine, request)[0].tokens);
      engine->settle(k);
    }
    EXPECT_FALSE(engine->gate().timed_out());
    EXPECT_GT(engine->engine->stats().handoff_cpu_layers, 0U);
    EXPECT_EQ(engine->engine->stats().handoff_timed_out, 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, Takeover,
                         ::testing::Values(AdapterMode::cpu_assist, AdapterMode::planned),
                         [](const auto& mode) { return std::string(to_string(mode.param)); });

// Devices, how they share adapters, and whether the model has inputs by layer and shared keys.
class TakeoverBFirst : public ::testing::TestWithParam<std::tuple<int, LoraSharding, bool>> {};

// Part B travels first and is waited for; A comes after any operation.
TEST_P(TakeoverBFirst, BetweenAnyTwoOperationsAddsEveryDeltaOnce) {
  const auto [num_devices, sharding, has_inputs] = GetParam();
  const ModelSpec config = has_inputs ? small_model_with_layer_inputs() : handoff_config();
  const int stride = (has_inputs ? 5 : 1) * num_devices * kStride;
  auto oracle = HandoffEngine::make(AdapterMode::cached, kBoundaries, 0, 0, nullptr, config);
  auto engine = HandoffEngine::make(
      AdapterMode::planned, kBoundaries, 0, 0,
      [sharding = sharding](EngineOptions& options) {
        options.lora_sharding = sharding;
        options.handoff.plan = [](const CostModel&, const PlanRequest& request) {
          HandoffPlan plan;
          for (std::size_t i = 0; i < request.adapters.size(); ++i) {
            const std::size_t layers = request.adapters[i].layers.size();
            plan.choices.emplace_back(layers, LayerChoice::cpu_xa);
            for (const PieceKind kind : {PieceKind::b, PieceKind::a}) {
              for (std::size_t l = 0; l < layers; ++l) {
                plan.order.push_back(
                    {static_cast<std::int32_t>(i), static_cast<std::int32_t>(l), kind});
              }
            }
            plan.layer_ends.assign(layers, 0);
          }
          return plan;
        };
      },
      config, num_devices);
  for (int k = 0; k < kBoundaries; k += stride) {
    SCOPED_TRACE(::testing::Message() << "after operation " << k);
    const GenerationRequest request = handoff_request(k, kPrompt, kTokens);
    engine->gate().close(k, /*b_at=*/0, /*num_b=*/config.num_layers());
    if (num_devices == 2) {
      engine->second->gate().close(std::min(k, 9), 0, config.num_layers());
    }
    const auto generation = engine->engine->submit(request).value();
    EXPECT_EQ(tokens_of(*generation), run(*oracle->engine, request)[0].tokens);
    engine->settle(k);
  }
  EXPECT_FALSE(engine->gate().timed_out());
  EXPECT_GT(engine->engine->stats().handoff_cpu_layers, 0U);
  EXPECT_EQ(engine->engine->stats().handoff_timed_out, 0U);
}

INSTANTIATE_TEST_SUITE_P(Devices, TakeoverBFirst,
                         ::testing::Values(std::tuple(1, LoraSharding::automatic, false),
                                           std::tuple(2, LoraSharding::automatic, false),
                                           std::tuple(2, LoraSharding::gathered, false),
                                           std::tuple(2, LoraSharding::s_lora, false),
                                           std::tuple(1, LoraSharding::automatic, true),
                                           std::tuple(2, LoraSharding::s_lora, true)));

}  // namespace
}  // namespace tandem::test
