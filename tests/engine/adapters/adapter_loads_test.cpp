// Adapters come and go under load: the text is that of an engine that holds all of them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "engine/loader/peft/peft_reader.h"
#include "engine/loader/weights.h"
#include "engine/model/families/registry.h"
#include "tests/support/forwarding_device.h"
#include "tests/support/golden.h"
#include "tests/support/sanitized.h"
#include "tests/support/small_model.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_engine.h"

namespace tandem::test {
namespace {

using ::testing::HasSubstr;
using testing::TempDir;

constexpr std::int32_t kAdapters = 12;
const std::vector<std::string_view> kModules = {"q_proj", "v_proj", "o_proj", "up_proj",
                                                "down_proj"};
const ModelSpec kModel = small_model(6);

std::string name_of(std::int32_t i) {
  return "a" + std::to_string(i);
}

struct Served {
  std::unique_ptr<Device> device;
  std::unique_ptr<Tokenizer> tokenizer;
  SteadyClock clock;
  std::unique_ptr<Engine> engine;
};

// Returns the number of pages of an adapter of `rank` on the small model.
std::int32_t pages_of(std::int32_t rank) {
  const PoolLayout layout = PoolLayout::of(kModel, DType::f32, 16);
  const Adapter adapter = make_dummy_adapter(kModel, DType::f32, rank, kModules, 0);
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
  served.device = std::make_unique<PoisonedDevice>(2, link_gbps);
  served.tokenizer = Tokenizer::load("data/demo-llama").value();
  served.engine = Engine::create(options, kModel, *make_dummy_weights(7), DType::f32,
                                 *served.device, *served.tokenizer, served.clock, nullptr)
                      .value();
  for (std::int32_t i = 0; i < kAdapters; ++i) {
    Adapter adapter = make_dummy_adapter(kModel, DType::f32, rank_of(i), kModules,
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
  // A sanitizer slows everything except the kernels.
  const int kRequests = sanitized() ? 40 : 80;
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  const std::vector<GenerationRequest> requests = random_requests(kSeed, kRequests);
  const std::int32_t all = kAdapters * pages_of(64) + 300;
  Served oracle = serve(AdapterMode::cached, all, 0);
  const auto expected = answers(*oracle.engine, requests);
  EXPECT_EQ(oracle.engine->stats().adapter_evictions, 0U);

  // Room for the two largest and a little KV, which is a third of the adapters.
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

TEST(AdapterLoad, DoesNotHoldUpOtherRequests) {
  Served served = serve(AdapterMode::on_demand, 400, 0.001);  // takes more than a second
  const auto cold = served.engine->submit(greedy({5, 6, 7}, 1, name_of(3))).value();  // rank 64
  EXPECT_EQ(run(*served.engine, greedy({8, 9}, 2))[0].tokens.size(), 2U);
  EXPECT_EQ(served.engine->adapter_store().find(name_of(3))->residency(), Residency::loading);
  EXPECT_EQ(collect(*cold)[0].tokens.size(), 1U);
  EXPECT_EQ(cold->stats().adapter_tier, "host");
  const auto warm = served.engine->submit(greedy({5, 6, 7}, 1, name_of(3))).value();
  collect(*warm);
  EXPECT_EQ(warm->stats().adapter_tier, "device");
  const AdapterInfo info = served.engine->adapters()[5];  // sorted by name: a0 a1 a10 a11 a2 a3
  EXPECT_EQ(info.name, name_of(3));
  EXPECT_EQ(info.tier, "device");
  EXPECT_EQ(info.hits, 1U);
  EXPECT_EQ(info.cold_starts, 1U);
}

TEST(AdapterLoad, GetsItsTurnThoughOthersNeverPause) {
  for (const AdapterMode mode : {AdapterMode::on_demand, AdapterMode::pipelined}) {
    // Room for two adapters of rank 64 (a3, a8); sequences of both run at all times.
    Served served = serve(mode, 2 * pages_of(64) + 40, 0);
    std::vector<std::unique_ptr<Generation>> hot;
    int submitted = 0;
    const auto submit_hot = [&] {
      const std::int32_t tokens = 10 + 7 * (submitted % 3);
      hot.push_back(served.engine
                        ->submit(greedy({4, static_cast<TokenId>(20 + submitted)}, tokens,
                                        name_of(submitted % 2 == 0 ? 3 : 8)))
                        .value());
      ++submitted;
    };
    for (int i = 0; i < 6; ++i) submit_hot();
    const auto cold = served.engine->submit(greedy({5, 6}, 2, name_of(4))).value();
    while (!cold->done() && submitted < 300) {
      (void)cold->next(std::chrono::microseconds(100));
      for (std::size_t i = 0; i < hot.size(); ++i) {
        while (hot[i]->next(std::chrono::microseconds(1))) {
        }
        if (!hot[i]->done()) continue;
        hot.erase(hot.begin() + static_cast<std::ptrdiff_t>(i--));
        submit_hot();
      }
    }
    EXPECT_TRUE(cold->done()) << "after " << submitted << " requests for others";
  }
}

TEST(AdapterUnload, FreesAtOnceWhatNobodyUses) {
  Served served = serve(AdapterMode::pipelined, 400, 0);
  for (std::int32_t i = 0; i < kAdapters; ++i) {
    run(*served.engine, greedy({5, 6, 7}, 2, name_of(i)));
  }
  EXPECT_TRUE(within_ten_seconds([&] { return served.engine->stats().pages_adapter > 0; }));
  for (std::int32_t i = 0; i < kAdapters; ++i) {
    EXPECT_TRUE(served.engine->unload_adapter(name_of(i)).ok());
  }
  EXPECT_TRUE(within_ten_seconds([&] {
    return served.engine->stats().pages_adapter == 0 &&
           served.engine->adapter_store().host_tier().used() == 0;
  }));
}

TEST(AdapterUnload, AndReplacementWhileItLoadsLeaveItsRequestsAlone) {
  Served served = serve(AdapterMode::pipelined, 600, 0.005);
  const GenerationRequest request = greedy({5, 6, 7}, 8, name_of(3));
  const auto first = served.engine->submit(request).value();
  ASSERT_TRUE(within_ten_seconds([&] {
    return served.engine->adapter_store().find(name_of(3))->residency() != Residency::host;
  }));
  // The name first gets other contents, then none.
  Adapter other = make_dummy_adapter(kModel, DType::f32, 64, kModules, 999);
  ASSERT_TRUE(served.engine->adapter_store().add(name_of(3), std::move(other), true, false).ok());
  const auto second = served.engine->submit(request).value();
  ASSERT_TRUE(served.engine->unload_adapter(name_of(3)).ok());
  EXPECT_EQ(served.engine->submit(request).status().code(), StatusCode::not_found);
  const auto of_first = collect(*first)[0].tokens;
  const auto of_second = collect(*second)[0].tokens;
  Served oracle = serve(AdapterMode::cached, 1000, 0);
  EXPECT_EQ(of_first, run(*oracle.engine, request)[0].tokens);
  EXPECT_NE(of_first, of_second);
  EXPECT_TRUE(within_ten_seconds([&] { return served.engine->stats().pages_adapter == 0; }));
}

// The demo model with adapters that have folders.
class AdapterFolders : public ::testing::Test {
 protected:
  std::unique_ptr<TestEngine> make(EngineOptions options) {
    std::filesystem::copy("data/demo-llama/adapters", dir_.path(),
                          std::filesystem::copy_options::recursive);
    auto engine = TestEngine::load("data/demo-llama", DType::f32, options);
    for (const auto& each : std::filesystem::directory_iterator(dir_.path())) {
      const std::string name = each.path().filename();
      EXPECT_TRUE(engine->engine->unload_adapter(name).ok());
      EXPECT_TRUE(engine->engine->load_adapter(name, each.path(), false, false).ok());
    }
    return engine;
  }
  // Room for hardly more than the largest adapter (cheader): one falls out when another comes.
  static EngineOptions tight() {
    EngineOptions options = small_engine_options();
    const auto config = load_model_spec("data/demo-llama").value();
    const auto largest =
        load_peft_adapter("data/demo-llama/adapters/cheader", config, DType::f32).value();
    options.host_tier_bytes = (largest.num_bytes + 4096) / 4096 * 4096;
    options.num_pages = 16 * 32;
    options.max_device_adapters = 1;
    return options;
  }

  TempDir dir_;
};

TEST_F(AdapterFolders, AreReadAgainWhenTheHostTierHasNoRoom) {
  auto engine = make(tight());
  std::vector<std::unique_ptr<Generation>> running;
  std::vector<GoldenCase> cases;
  // A sanitizer slows everything except the kernels.
  const std::size_t kLongest = sanitized() ? 16 : 60;
  for (const GoldenCase& golden : read_golden("data/golden.json")) {
    if (golden.prompt.size() > kLongest) continue;
    running.push_back(
        engine->engine
            ->submit(greedy(golden.prompt, static_cast<std::int32_t>(golden.output.size()),
                            golden.adapter))
            .value());
    cases.push_back(golden);
  }
  bool from_disk = false;
  for (std::size_t i = 0; i < running.size(); ++i) {
    const Collected got = collect(*running[i])[0];
    EXPECT_TRUE(got.error.ok()) << got.error.message();
    EXPECT_EQ(got.tokens, cases[i].output) << cases[i].name();
    from_disk |= running[i]->stats().adapter_tier == "disk";
  }
  EXPECT_TRUE(from_disk);
}

TEST_F(AdapterFolders, ThatHaveChangedSinceAreRefusedUntilLoadedInPlace) {
  auto engine = make(tight());
  ASSERT_TRUE(within_ten_seconds([&] {
    for (const AdapterInfo& info : engine->engine->adapters()) {
      if (info.name == "cheader" && info.tier == "disk") return true;
    }
    // Requests for another adapter push it out.
    run(*engine->engine, greedy({5, 6}, 1, "docstring"));
    return false;
  }));
  const std::filesystem::path mine = dir_.path() / "cheader";
  for (const char* file : {"adapter_config.json", "adapter_model.safetensors"}) {
    std::filesystem::copy_file("data/demo-llama/adapters/license" / std::filesystem::path(file),
                               mine / file, std::filesystem::copy_options::overwrite_existing);
  }
  const Collected refused = run(*engine->engine, greedy({5, 6}, 1, "cheader"))[0];
  EXPECT_EQ(refused.finish, FinishReason::failed);
  EXPECT_THAT(refused.error.message(), HasSubstr("load_inplace"));
  ASSERT_TRUE(engine->engine->load_adapter("cheader", mine, true, false).ok());
  EXPECT_EQ(run(*engine->engine, greedy({5, 6}, 3, "cheader"))[0].tokens,
            run(*engine->engine, greedy({5, 6}, 3, "license"))[0].tokens);
}

TEST_F(AdapterFolders, PinnedAreThereForGoodAndOneTooManyIsRefused) {
  EngineOptions options = small_engine_options();
  options.max_device_adapters = 2;
  auto engine = make(options);
  const auto load_pinned = [&](const std::string& name) {
    return engine->engine->load_adapter("pinned-" + name, dir_.path() / name, false, true);
  };
  ASSERT_TRUE(load_pinned("python").ok());
  EXPECT_EQ(engine->engine->adapter_store().find("pinned-python")->residency(),
            Residency::resident);
  for (const char* name : {"license", "docstring", "cheader"}) {
    EXPECT_EQ(run(*engine->engine, greedy({5, 6}, 1, name))[0].tokens.size(), 1U);
  }
  EXPECT_EQ(engine->engine->adapter_store().find("pinned-python")->residency(),
            Residency::resident);
  ASSERT_TRUE(load_pinned("license").ok());
  const Status refused = load_pinned("docstring");
  EXPECT_EQ(refused.code(), StatusCode::resource_exhausted);
  EXPECT_THAT(refused.message(), HasSubstr("max_device_adapters"));
  EXPECT_FALSE(engine->engine->has_adapter("pinned-docstring"));
  // Both places are pinned now: other requests get an error, and the engine goes on.
  const Collected told = run(*engine->engine, greedy({5, 6}, 1, "cheader"))[0];
  EXPECT_EQ(told.error.code(), StatusCode::resource_exhausted);
  ASSERT_TRUE(engine->engine->unload_adapter("pinned-license").ok());
  EXPECT_TRUE(within_ten_seconds([&] {
    return run(*engine->engine, greedy({5, 6}, 1, "cheader"))[0].tokens.size() == 1U;
  }));
}

TEST_F(AdapterFolders, AreReadAgainThoughTheyOnceCouldNotBe) {
  auto engine = make(tight());
  const std::filesystem::path folder = dir_.path() / "cheader";
  const std::filesystem::path away = dir_.path() / "away";
  // The first request pushes it out; the second adapter is read after that, by the same thread.
  run(*engine->engine, greedy({5, 6}, 1, "python"));
  run(*engine->engine, greedy({5, 6}, 1, "docstring"));
  AdapterStore& store = engine->engine->adapter_store();
  const AdapterLease adapter = store.find("cheader");
  ASSERT_EQ(adapter->residency(), Residency::on_disk);
  std::filesystem::rename(folder, away);
  store.request_read(adapter);  // as for a request that was cancelled before the answer
  run(*engine->engine, greedy({5, 6}, 1, "license"));
  run(*engine->engine, greedy({5, 6}, 1, "python"));
  run(*engine->engine, greedy({5, 6}, 1, "docstring"));
  std::filesystem::rename(away, folder);
  const Collected got = run(*engine->engine, greedy({5, 6}, 1, "cheader"))[0];
  EXPECT_TRUE(got.error.ok()) << got.error.message();
}

// The pages that a running sequence may need were checked on arrival; the pin takes them
// afterwards.
TEST_F(AdapterFolders, PinnedWhileOthersRunMayEndThemButNotTheEngine) {
  constexpr std::int32_t kLongest = 512;
  EngineOptions options = small_engine_options(kLongest);
  const auto config = load_model_spec("data/demo-llama").value();
  const PoolLayout layout = PoolLayout::of(config, DType::f32, options.page_tokens);
  const auto largest =
      load_peft_adapter("data/demo-llama/adapters/cheader", config, DType::f32).value();
  options.num_pages =
      static_cast<std::int32_t>(kLongest / options.page_tokens +
                                (largest.num_bytes + layout.page_bytes - 1) / layout.page_bytes);
  auto engine = make(options);
  const auto running = engine->engine->submit(greedy({5, 6, 7}, kLongest - 3, "cheader")).value();
  ASSERT_TRUE(running->next(std::chrono::seconds(10)).has_value());
  const Status pinned = engine->engine->load_adapter("pinned", dir_.path() / "python", false, true);
  ASSERT_TRUE(pinned.ok()) << pinned.message();
  const Collected ended = collect(*running)[0];
  EXPECT_EQ(ended.error.code(), StatusCode::resource_exhausted);
  EXPECT_THAT(ended.error.message(), HasSubstr("pinned"));
  EXPECT_EQ(run(*engine->engine, greedy({5, 6, 7}, 200))[0].tokens.size(), 200U);
}

// As trainers write it who teach a base that answers end with another of its tokens.
TEST(AdapterEndToken, EndsTheTextsOfItsRequestsAlone) {
  const std::filesystem::path model = "data/tiny-llama";
  const auto engine = TestEngine::load(model, DType::f32, small_engine_options());
  const auto ask = [&](const std::string& adapter, std::int32_t min_tokens = 0) {
    GenerationRequest request = greedy({5, 17, 300, 41}, 12, adapter);
    request.ignore_eos = false;
    request.min_tokens = min_tokens;
    return run(*engine->engine, std::move(request))[0];
  };
  const Collected whole = ask("r8");
  ASSERT_EQ(whole.tokens.size(), 12U);
  const TokenId end = whole.tokens.back();
  const auto first = std::ranges::find(whole.tokens, end) - whole.tokens.begin();
  const TempDir dir;
  std::filesystem::copy(model / "adapters/r8", dir.path() / "ends");
  dir.write("ends/tokenizer_config.json",
            fmt::format(R"({{"eos_token":{{"content":{}}}}})",
                        nlohmann::json(engine->tokenizer->id_to_token(end)).dump()));
  ASSERT_TRUE(
      engine->engine->load_adapter("ends", (dir.path() / "ends").string(), false, false).ok());
  const Collected got = ask("ends");
  EXPECT_EQ(got.finish, FinishReason::stop);
  EXPECT_EQ(got.tokens, std::vector<TokenId>(whole.tokens.begin(), whole.tokens.begin() + first));
  const Collected later = ask("ends", 12);
  EXPECT_EQ(later.tokens.size(), 12U);
  EXPECT_EQ(std::ranges::count(later.tokens, end), 0);
  EXPECT_EQ(ask("r8").tokens, whole.tokens);
}

}  // namespace
}  // namespace tandem::test
