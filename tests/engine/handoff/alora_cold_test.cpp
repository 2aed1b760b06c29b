// Activated LoRA on cold adapters: the tokens before the invocation wait for nothing, those behind
// it are computed as the mode says, and the answer is that of an adapter on the device.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "tests/support/handoff_engine.h"

namespace tandem::test {
namespace {

constexpr int kAdapters = 6;

std::unique_ptr<HandoffEngine> make(AdapterMode mode) {
  auto engine = HandoffEngine::make(mode, 0, 0.05, 0, [](EngineOptions& options) {
    options.prefix_cache = true;
    options.page_tokens = 4;
    options.max_prefill_chunk = 16;
  });
  const ModelSpec config = handoff_config();
  for (int i = 0; i < kAdapters; ++i) {
    Adapter adapter = make_dummy_adapter(config, DType::f32, 3 + i, handoff_modules(i, config),
                                         static_cast<std::uint64_t>(100 + i));
    adapter.invocation = {static_cast<TokenId>(3 + i), 4};
    EXPECT_TRUE(engine->engine->adapter_store()
                    .add(handoff_name(i), std::move(adapter), false, false)
                    .ok());
  }
  return engine;
}

std::vector<GenerationRequest> requests(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<GenerationRequest> all;
  for (int i = 0; i < kAdapters; ++i) {
    std::vector<TokenId> prompt;
    const std::size_t before = random() % 40;
    while (prompt.size() < before) prompt.push_back(static_cast<TokenId>(50 + prompt.size()));
    prompt.insert(prompt.end(), {static_cast<TokenId>(3 + i), 4});
    for (std::size_t more = random() % 30; more > 0; --more) {
      prompt.push_back(static_cast<TokenId>(20 + random() % 200));
    }
    all.push_back(greedy(std::move(prompt), 8, handoff_name(i)));
  }
  return all;
}

TEST(ColdActivatedLora, AnswersInEveryModeAsOnTheDevice) {
  for (const unsigned seed : {1U, 2U, 3U}) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const std::vector<GenerationRequest> asked = requests(seed);
    std::vector<std::vector<TokenId>> expected;
    auto warm = make(AdapterMode::on_demand);
    warm->open();
    for (const GenerationRequest& each : asked) {
      expected.push_back(run(*warm->engine, each)[0].tokens);
    }
    for (const AdapterMode mode :
         {AdapterMode::pipelined, AdapterMode::cpu_assist, AdapterMode::planned}) {
      auto engine = make(mode);
      engine->open();
      std::vector<std::unique_ptr<Generation>> running;
      for (const GenerationRequest& each : asked) {
        running.push_back(engine->engine->submit(each).value());
      }
      for (std::size_t i = 0; i < running.size(); ++i) {
        EXPECT_EQ(collect(*running[i])[0].tokens, expected[i])
            << "adapter " << i << ", mode " << static_cast<int>(mode);
      }
    }
  }
}

// The gate holds back the load: a step that waited for it would never end.
TEST(ColdActivatedLora, ComputesTheTokensBeforeTheInvocationWhileTheAdapterLoads) {
  auto engine = make(AdapterMode::pipelined);
  engine->gate().close(LoadGate::kAll);
  std::vector<TokenId> prompt(40, 50);
  prompt.insert(prompt.end(), {3, 4, 60});
  auto generation = engine->engine->submit(greedy(prompt, 2, handoff_name(0))).value();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (engine->engine->stats().steps < 3) {  // chunks of 16, 16 and 8
    ASSERT_LT(std::chrono::steady_clock::now(), end) << engine->engine->stats().steps;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  EXPECT_EQ(engine->engine->adapter_store().find(handoff_name(0))->residency(), Residency::loading);
  engine->open();
  EXPECT_EQ(collect(*generation)[0].tokens.size(), 2U);
}

}  // namespace
}  // namespace tandem::test
