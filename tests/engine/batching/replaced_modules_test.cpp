// Adapters with projections, norms and biases of their own, in batches, modes and graphs, beside
// each adapter alone. That single answers are right is for the goldens (family_golden_test.cpp).
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/test_engine.h"

namespace tandem::test {
namespace {

// Adapters of two bases, and such without modules in place of the base's.
const std::map<std::string, std::vector<std::string>> kAdapters = {
    {"adapters_llama",
     {"save-down", "save-norms", "save-final-norm", "save-layernorm", "save-head", "all-linear"}},
    {"adapters_qwen2", {"bias-all", "lora-bias"}},
    {"adapters_qwen3", {"save-qk-norm"}}};

GenerationRequest request_for(const std::string& adapter, int prompt) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < 3 + 5 * prompt; ++i) tokens.push_back(40 + (prompt * 31 + i * 7) % 400);
  GenerationRequest request = greedy(std::move(tokens), 5, adapter);
  request.num_logprobs = 0;
  return request;
}

using Case = std::tuple<std::string, AdapterMode, int>;  // folder, mode, devices

class ReplacedModules : public ::testing::TestWithParam<Case> {};

TEST_P(ReplacedModules, AnswerInMixedBatchesAsAlone) {
  const auto& [folder, mode, num_devices] = GetParam();
  std::vector<std::string> adapters = kAdapters.at(folder);
  adapters.emplace_back();  // the base
  const auto engine_with = [&](EngineOptions options) {
    return TestEngine::load("data/families/" + folder, DType::f32, options, num_devices);
  };
  const auto alone = engine_with(small_engine_options(96));
  EngineOptions options = small_engine_options(96);
  options.adapter_mode = mode;
  options.max_device_adapters = 3;  // adapters come and go
  options.max_graph_batch = 8;
  options.max_prefill_chunk = 7;
  const auto mixed = engine_with(options);
  std::vector<std::unique_ptr<Generation>> running;
  for (int prompt = 0; prompt < 3; ++prompt) {
    for (const std::string& adapter : adapters) {
      running.push_back(mixed->engine->submit(request_for(adapter, prompt)).value());
    }
  }
  std::size_t next = 0;
  for (int prompt = 0; prompt < 3; ++prompt) {
    for (const std::string& adapter : adapters) {
      const Collected want = run(*alone->engine, request_for(adapter, prompt))[0];
      const Collected got = collect(*running[next++])[0];
      ASSERT_EQ(got.tokens, want.tokens) << adapter << ", prompt " << prompt;
      for (std::size_t i = 0; i < want.logprobs.size(); ++i) {
        ASSERT_NEAR(got.logprobs[i].logprob, want.logprobs[i].logprob, 1e-4F)
            << adapter << ", prompt " << prompt << ", token " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ReplacedModules,
    ::testing::Combine(::testing::Values("adapters_llama", "adapters_qwen2", "adapters_qwen3"),
                       ::testing::Values(AdapterMode::pipelined, AdapterMode::on_demand),
                       ::testing::Values(1, 2)),
    [](const auto& each) {
      const bool is_pipelined = std::get<1>(each.param) == AdapterMode::pipelined;
      return std::get<0>(each.param) + (is_pipelined ? "_pipelined" : "_on_demand") +
             (std::get<2>(each.param) == 1 ? "" : "_on_two_devices");
    });

}  // namespace
}  // namespace tandem::test
