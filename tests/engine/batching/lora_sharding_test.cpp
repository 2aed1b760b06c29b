// However devices that share a model divide the adapters' work, they answer like one device: with
// many adapters at once, ranks that no number of devices divides, adapters without some module, and
// rows without an adapter.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "engine/loader/weights.h"
#include "tests/support/failing_device.h"
#include "tests/support/sanitized.h"
#include "tests/support/small_model.h"
#include "tests/support/test_device.h"
#include "tests/support/test_engine.h"
#include "tests/support/test_seed.h"

namespace tandem::test {
namespace {

constexpr std::int32_t kRanks[] = {1, 5, 8, 12, 31, 64, 100, 128};
constexpr float kTolerance = 2e-4F;  // of log-probabilities: float sums in another order

ModelSpec config_for_four() {
  ModelSpec config = small_model(2);
  for (LayerSpec& layer : config.layers) {
    layer.attention.heads = 8;
    layer.attention.kv_heads = 4;
  }
  return config;
}

struct Shared {
  std::vector<std::unique_ptr<FailingDevice>> devices;
  std::unique_ptr<Engine> engine;

  int num_halved() const { return devices.front()->num_halved(); }
};

class LoraShardings : public ::testing::TestWithParam<std::tuple<LoraSharding, int, bool>> {
 protected:
  LoraShardings() {
    const std::uint64_t seed = test_seed();
    RecordProperty("seed", std::to_string(seed));
    random_.seed(seed);
  }

  Shared start(int num_devices, LoraSharding sharding, bool recorded) {
    EngineOptions options = small_engine_options(128);
    options.num_pages = 4000;
    options.max_lora_rank = 128;
    options.prefix_cache = false;
    options.lora_sharding = sharding;
    options.max_graph_batch = recorded ? 16 : 0;
    options.record_at_start = recorded;
    Shared made;
    std::vector<Device*> devices;
    for (int rank = 0; rank < num_devices; ++rank) {
      made.devices.push_back(std::make_unique<FailingDevice>(make_test_device(rank)));
      devices.push_back(made.devices.back().get());
    }
    made.engine = Engine::create(options, config_, *make_dummy_weights(7), DType::f32, devices,
                                 *tokenizer_, clock_, nullptr)
                      .value();
    const std::vector<std::vector<std::string_view>> kinds = {
        {"q_proj", "k_proj", "v_proj"},
        {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"},
        {"q_proj", "v_proj", "down_proj"},
        {"k_proj", "o_proj", "up_proj"},
        {"gate_proj", "up_proj", "down_proj"}};
    for (std::size_t i = 0; i < std::size(kRanks); ++i) {
      Adapter adapter =
          make_dummy_adapter(config_, DType::f32, kRanks[i], kinds[i % kinds.size()], 100 + i);
      EXPECT_TRUE(made.engine->adapter_store()
                      .add(fmt::format("a{}", i), std::move(adapter), false, false)
                      .ok());
    }
    return made;
  }

  // One request for the base and one or two for each adapter, in random order.
  std::vector<GenerationRequest> requests() {
    std::vector<GenerationRequest> all;
    std::uniform_int_distribution<TokenId> token(2, static_cast<TokenId>(config_.vocab_size) - 1);
    const auto add = [&](const std::string& adapter) {
      std::vector<TokenId> prompt(3 + random_() % 20);
      for (TokenId& id : prompt) id = token(random_);
      all.push_back(greedy(std::move(prompt), 8, adapter));
      all.back().num_logprobs = 0;
    };
    add("");
    for (std::size_t i = 0; i < std::size(kRanks); ++i) {
      for (std::size_t n = 0; n < 1 + i % 2; ++n) add(fmt::format("a{}", i));
    }
    std::shuffle(all.begin(), all.end(), random_);
    return all;
  }

  static std::vector<Collected> run_together(Engine& engine,
                                             const std::vector<GenerationRequest>& requests) {
    std::vector<std::unique_ptr<Generation>> running;
    for (const GenerationRequest& request : requests) {
      running.push_back(engine.submit(request).value());
    }
    std::vector<Collected> all;
    for (const auto& each : running) all.push_back(collect(*each)[0]);
    return all;
  }

  const ModelSpec config_ = config_for_four();
  const std::unique_ptr<Tokenizer> tokenizer_ = Tokenizer::load("data/demo-llama").value();
  SteadyClock clock_;
  std::mt19937_64 random_;
};

TEST_P(LoraShardings, AnswerWhatOneDeviceAnswers) {
  const auto [sharding, num_devices, recorded] = GetParam();
  const Shared one = start(1, LoraSharding::automatic, false);
  const Shared many = start(num_devices, sharding, recorded);
  for (int turn = 0; turn < (sanitized() ? 1 : 2); ++turn) {
    const std::vector<GenerationRequest> asked = requests();
    const std::vector<Collected> want = run_together(*one.engine, asked);
    const std::vector<Collected> got = run_together(*many.engine, asked);
    for (std::size_t i = 0; i < asked.size(); ++i) {
      SCOPED_TRACE(::testing::Message() << "request " << i << " for '" << asked[i].adapter << "'");
      ASSERT_EQ(got[i].tokens.size(), want[i].tokens.size());
      for (std::size_t t = 0; t < want[i].logprobs.size(); ++t) {
        ASSERT_NEAR(got[i].logprobs[t].logprob, want[i].logprobs[t].logprob, kTolerance);
        if (got[i].tokens[t] != want[i].tokens[t]) break;  // after a tie the contexts differ
      }
    }
  }
  EXPECT_EQ(one.num_halved(), 0);
  const bool forced = sharding == LoraSharding::gathered || sharding == LoraSharding::s_lora;
  if (sharding != LoraSharding::automatic) {
    EXPECT_EQ(many.num_halved() > 0, forced);
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, LoraShardings,
                         ::testing::Combine(::testing::ValuesIn(kLoraShardings),
                                            ::testing::Values(2, 4), ::testing::Bool()),
                         [](const auto& param) {
                           std::string name(to_string(std::get<0>(param.param)));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return fmt::format("{}_on_{}{}", name, std::get<1>(param.param),
                                              std::get<2>(param.param) ? "_recorded" : "");
                         });

}  // namespace
}  // namespace tandem::test
