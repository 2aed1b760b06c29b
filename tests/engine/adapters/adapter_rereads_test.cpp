// Adapters fall out of memory and are read again from their folders while requests wait for them:
// the text is that of the adapter that was loaded, or there is none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <tuple>
#include <utility>

#include "engine/loader/peft/peft_reader.h"
#include "engine/loader/weights.h"
#include "gpu/host/host_device.h"
#include "tests/support/in_process_pool.h"
#include "tests/support/peft_writer.h"
#include "tests/support/sanitized.h"
#include "tests/support/small_model.h"
#include "tests/support/test_engine.h"

namespace tandem::test {
namespace {

using ::testing::HasSubstr;

constexpr std::int32_t kAdapters = 4;
constexpr std::int32_t kRank = 48;
// A sanitizer slows everything except the kernels.
const std::int32_t kRounds = sanitized() ? 6 : 40;
const double kLinkGbps =
    sanitized() ? 0.005 : 0.05;  // steps are slow as well, and loads must not end before them
const std::vector<std::string_view> kModules = {"q_proj", "v_proj", "o_proj", "down_proj"};

struct RereadSetup {
  const char* name;
  AdapterMode mode;
  int workers;  // CPU workers, which compute from what is being read
  double link_gbps;
  std::int32_t nodes = 1;  // with `workers` each, and one adapter in the host tier
};

class AdapterRereads : public ::testing::TestWithParam<RereadSetup> {
 protected:
  void write(std::int32_t adapter, bool right) {
    paths_[adapter] =
        testing::write_peft_adapter(dir_, name(adapter), config_, kRank, kModules,
                                    static_cast<std::uint64_t>(adapter + (right ? 0 : 100)));
  }
  static std::string name(std::int32_t adapter) { return "a" + std::to_string(adapter); }

  std::unique_ptr<Engine> make(AdapterMode mode, int workers, std::int32_t in_host_tier) {
    EngineOptions options = small_engine_options(256);
    options.adapter_mode = mode;
    if (workers > 0) {
      options.handoff = in_process_workers(workers, faults_);
      options.handoff.groups.resize(static_cast<std::size_t>(GetParam().nodes),
                                    options.handoff.groups.front());
      options.handoff.deadline_us = 5'000'000;  // long enough for a sanitizer on a busy machine
      // The costs say that workers are immediate and the link endless, so plans hand over if they
      // can.
      options.handoff.costs.link_bytes_per_s = 1e3;
      options.handoff.costs.worker_job_s = 0;
      options.handoff.costs.trip_s = 0;
    }
    const Adapter one = load_peft_adapter(paths_[0], config_, DType::f32).value();
    options.host_tier_bytes =
        static_cast<std::size_t>(in_host_tier) * ((one.num_bytes + 8191) / 4096 * 4096);
    options.max_device_adapters = in_host_tier + 1;
    options.num_pages = 16 * 64;
    auto engine = Engine::create(options, config_, *make_dummy_weights(7), DType::f32, *device_,
                                 *tokenizer_, clock_, nullptr)
                      .value();
    for (std::int32_t i = 0; i < kAdapters; ++i) {
      EXPECT_TRUE(engine->load_adapter(name(i), paths_[i], false, false).ok());
    }
    return engine;
  }

  static std::unique_ptr<Device> two_threads(double link_gbps) {
    HostDeviceOptions options;
    options.num_threads = 2;
    options.link_gbps = link_gbps;
    return make_host_device(options).value();
  }

  const ModelSpec config_ = small_model(6);
  testing::TempDir dir_;
  std::string paths_[kAdapters];
  std::unique_ptr<Device> device_ = two_threads(GetParam().link_gbps);
  WorkerFaults faults_;
  std::unique_ptr<Tokenizer> tokenizer_ = Tokenizer::load("data/demo-llama").value();
  SteadyClock clock_;
};

TEST_P(AdapterRereads, NeverAnswerWithOtherContentThanWasLoaded) {
  constexpr unsigned kSeed = 20261121;
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  std::mt19937 random(kSeed);
  for (std::int32_t i = 0; i < kAdapters; ++i) write(i, true);
  // There are few prompts, of more than a page each, so that cached prefixes are found.
  std::vector<std::vector<TokenId>> prompts(3);
  for (auto& prompt : prompts) {
    prompt.resize(40 + random() % 20);
    for (TokenId& token : prompt) token = static_cast<TokenId>(2 + random() % 4000);
  }
  constexpr std::int32_t kTokens = 5;
  std::map<std::pair<std::int32_t, std::size_t>, std::vector<TokenId>> right;
  {
    const auto oracle = make(AdapterMode::cached, 0, kAdapters);
    for (std::int32_t i = 0; i < kAdapters; ++i) {
      for (std::size_t p = 0; p < prompts.size(); ++p) {
        right[{i, p}] = run(*oracle, greedy(prompts[p], kTokens, name(i)))[0].tokens;
      }
    }
    EXPECT_NE((right[{0, 0}]), (right[{1, 0}]));
  }
  const auto engine = make(GetParam().mode, GetParam().workers, GetParam().nodes);
  std::int32_t refused = 0;
  std::int32_t answered = 0;
  for (std::int32_t round = 0; round < kRounds; ++round) {
    bool sound[kAdapters];
    for (std::int32_t i = 0; i < kAdapters; ++i) {
      sound[i] = round % 4 == 3 || random() % 3 != 0;
      write(i, sound[i]);
    }
    std::vector<std::tuple<std::int32_t, std::size_t, std::unique_ptr<Generation>>> running;
    for (std::int32_t n = static_cast<std::int32_t>(1 + random() % 5); n > 0; --n) {
      const auto adapter = static_cast<std::int32_t>(random() % kAdapters);
      const std::size_t prompt = random() % prompts.size();
      running.emplace_back(adapter, prompt,
                           engine->submit(greedy(prompts[prompt], kTokens, name(adapter))).value());
    }
    for (const auto& [adapter, prompt, generation] : running) {
      const Collected got = collect(*generation)[0];
      if (got.error.ok()) {
        EXPECT_EQ(got.tokens, (right[{adapter, prompt}])) << "round " << round << " a" << adapter;
        ++answered;
      } else {
        EXPECT_FALSE(sound[adapter]) << "round " << round << ": " << got.error.message();
        EXPECT_THAT(got.error.message(), HasSubstr("has changed since it was loaded"));
        EXPECT_TRUE(got.tokens.empty()) << "no token of it may have been sent";
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(answered, kRounds / 2);
  if (GetParam().workers == 0) return;
  // Workers get a layer only if it arrives at the right time, so this repeats until one did.
  for (std::int32_t i = 0; i < kAdapters; ++i) write(i, true);
  for (std::int32_t n = 0; n < 200 && engine->stats().handoff_cpu_layers == 0; ++n) {
    const std::int32_t adapter = n % kAdapters;
    const Collected got = run(*engine, greedy(prompts[0], kTokens, name(adapter)))[0];
    EXPECT_EQ(got.tokens, (right[{adapter, 0}])) << got.error.message();
  }
  EXPECT_GT(engine->stats().handoff_cpu_layers, 0U);
}

INSTANTIATE_TEST_SUITE_P(
    Modes, AdapterRereads,
    ::testing::Values(RereadSetup{"on_demand", AdapterMode::on_demand, 0, 1},
                      RereadSetup{"pipelined", AdapterMode::pipelined, 0, 1},
                      RereadSetup{"cpu_assist", AdapterMode::cpu_assist, 2, kLinkGbps},
                      RereadSetup{"planned", AdapterMode::planned, 2, kLinkGbps},
                      RereadSetup{"planned_two_nodes", AdapterMode::planned, 2, kLinkGbps, 2}),
    [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace tandem::test
