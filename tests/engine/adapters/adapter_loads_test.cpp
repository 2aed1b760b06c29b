// Adapters that come and go under load: the text is that of an engine that holds them all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <random>
#include <thread>

#include "engine/loader/weights.h"
#include "gpu/host/host_device.h"
#include "tests/support/golden.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_engine.h"

namespace tandem::test {
namespace {

using ::testing::HasSubstr;
using testing::TempDir;

constexpr std::int32_t kAdapters = 12;
const std::vector<Module> kModules = {Module::q, Module::v, Module::o, Module::up, Module::down};

// Its memory is NaN until somebody writes to it: who reads too early gets no sound text.
class PoisonedDevice final : public Device {
 public:
  explicit PoisonedDevice(double link_gbps) {
    HostDeviceOptions options;
    options.num_threads = 2;
    options.link_gbps = link_gbps;
    inner_ = make_host_device(options).value();
  }
  const DeviceInfo& info() const override { return inner_->info(); }
  Result<Buffer> allocate(std::size_t bytes, std::string_view purpose) override {
    TANDEM_ASSIGN(Buffer buffer, inner_->allocate(bytes, purpose));
    if (purpose.find("pool") != std::string_view::npos) std::memset(buffer.data(), 0xff, bytes);
    return buffer;
  }
  Result<Buffer> allocate_pinned(std::size_t bytes, std::string_view purpose) override {
    return inner_->allocate_pinned(bytes, purpose);
  }
  Result<Buffer> pin(std::byte* data, std::size_t bytes, std::string_view purpose) override {
    return inner_->pin(data, bytes, purpose);
  }
  std::size_t free_bytes() const override { return inner_->free_bytes(); }
  Result<std::unique_ptr<Stream>> create_stream(std::string_view name) override {
    return inner_->create_stream(name);
  }
  std::unique_ptr<Event> create_event() override { return inner_->create_event(); }

 private:
  std::unique_ptr<Device> inner_;
};

ModelConfig small_config() {
  ModelConfig config;
  config.architecture = Architecture::llama;
  config.hidden_size = 64;
  config.num_layers = 6;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 16;
  config.ffn_size = 160;
  config.vocab_size = 4096;
  config.max_position_embeddings = 512;
  config.eos_token_ids = {1};
  return config;
}

std::string name_of(std::int32_t i) {
  return "a" + std::to_string(i);
}

struct Served {
  std::unique_ptr<Device> device;
  std::unique_ptr<Tokenizer> tokenizer;
  SteadyClock clock;
  std::unique_ptr<Engine> engine;
};

// Pages of an adapter of `rank` on the small model.
std::int32_t pages_of(std::int32_t rank) {
  const PoolLayout layout = PoolLayout::of(small_config(), DType::f32, 16);
  const Adapter adapter = make_dummy_adapter(small_config(), DType::f32, rank, kModules, 0);
  return static_cast<std::int32_t>((adapter.num_bytes + layout.page_bytes - 1) / layout.page_bytes);
}

std::int32_t rank_of(std::int32_t i) {
  return std::vector<std::int32_t>{4, 16, 8, 64, 32}[static_cast<std::size_t>(i % 5)];
}

Served serve(AdapterMode mode, std::int32_t num_pages, double link_gbps,
             std::int32_t max_graph_batch = 0) {
  EngineOptions options = small_engine_options(256);
  options.num_pages = num_pages;
  options.adapter_mode = mode;
  options.max_graph_batch = max_graph_batch;
  Served served;
  served.device = std::make_unique<PoisonedDevice>(link_gbps);
  served.tokenizer = Tokenizer::load("data/demo-llama").value();
  served.engine = Engine::create(options, small_config(), *make_dummy_weights(7), DType::f32,
                                 *served.device, *served.tokenizer, served.clock, nullptr)
                      .value();
  for (std::int32_t i = 0; i < kAdapters; ++i) {
    Adapter adapter = make_dummy_adapter(small_config(), DType::f32, rank_of(i), kModules,
                                         static_cast<std::uint64_t>(100 + i));
    EXPECT_TRUE(
        served.engine->adapter_store().add(name_of(i), std::move(adapter), false, false).ok());
  }
  return served;
}

std::vector<GenerationRequest> random_requests(unsigned seed, std::int32_t count) {
  std::mt19937 random(seed);
  std::vector<GenerationRequest> requests;
  for (std::int32_t i = 0; i < count; ++i) {
    std::vector<TokenId> prompt(1 + random() % 40);
    for (TokenId& token : prompt) token = static_cast<TokenId>(2 + random() % 4000);
    const auto which = static_cast<std::int32_t>(random() % (kAdapters + 1));
    requests.push_back(greedy(std::move(prompt), static_cast<std::int32_t>(1 + random() % 12),
                              which == kAdapters ? "" : name_of(which)));
  }
  return requests;
}

std::vector<std::vector<TokenId>> answers(Engine& engine,
                                          const std::vector<GenerationRequest>& requests) {
  std::vector<std::unique_ptr<Generation>> running;
  for (const GenerationRequest& request : requests)
    running.push_back(engine.submit(request).value());
  std::vector<std::vector<TokenId>> result;
  for (const auto& each : running) {
    const Collected got = collect(*each)[0];
    EXPECT_TRUE(got.error.ok()) << got.error.message();
    result.push_back(got.tokens);
  }
  return result;
}

template <typename Condition>
bool within_ten_seconds(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

struct Setup {
  const char* name;
  AdapterMode mode;
  double link_gbps;
  std::int32_t max_graph_batch;
};

class AdapterLoads : public ::testing::TestWithParam<Setup> {};

TEST_P(AdapterLoads, AnswerAsIfAllAdaptersHadAlwaysBeenThere) {
  constexpr unsigned kSeed = 20261120;
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  const std::vector<GenerationRequest> requests = random_requests(kSeed, 80);
  const std::int32_t all = kAdapters * pages_of(64) + 300;
  Served oracle = serve(AdapterMode::cached, all, 0);
  const auto expected = answers(*oracle.engine, requests);
  EXPECT_EQ(oracle.engine->stats().adapter_evictions, 0U);

  // Room for the two largest and a little KV: a third of the adapters.
  const std::int32_t few = 2 * pages_of(64) + 24;
  Served tight = serve(GetParam().mode, few, GetParam().link_gbps, GetParam().max_graph_batch);
  EXPECT_EQ(answers(*tight.engine, requests), expected);
  EXPECT_GT(tight.engine->stats().adapter_evictions, 0U);
  EXPECT_EQ(answers(*tight.engine, requests), expected) << "with prefixes that are cached";
  EXPECT_TRUE(within_ten_seconds([&] { return tight.engine->stats().pages_kv == 0; }));
}

INSTANTIATE_TEST_SUITE_P(
    Modes, AdapterLoads,
    ::testing::Values(Setup{"on_demand", AdapterMode::on_demand, 0.2, 0},
                      Setup{"pipelined", AdapterMode::pipelined, 0.2, 0},
                      Setup{"pipelined_fast_link", AdapterMode::pipelined, 0, 8},
                      Setup{"pipelined_with_recordings", AdapterMode::pipelined, 0.2, 8}),
    [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace tandem::test
