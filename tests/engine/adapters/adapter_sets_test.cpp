// Several adapters in one request, against transformers + PEFT: the folders of data/families and of
// $TANDEM_FAMILIES that have a golden_sets.json. And what requests share, and what they may not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "engine/loader/weights.h"
#include "gpu/host/host_device.h"
#include "tests/support/golden.h"
#include "tests/support/golden_request.h"
#include "tests/support/in_process_pool.h"
#include "tests/support/peft_writer.h"
#include "tests/support/small_model.h"
#include "tests/support/test_engine.h"

namespace tandem::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Parts = std::vector<AdapterPart>;

std::vector<std::filesystem::path> golden_files() {
  std::vector<std::filesystem::path> roots = {"data/families"};
  if (const char* const more = std::getenv("TANDEM_FAMILIES")) roots.emplace_back(more);
  std::vector<std::filesystem::path> files;
  for (const std::filesystem::path& root : roots) {
    for (const auto& each : std::filesystem::directory_iterator(root)) {
      const std::filesystem::path file = each.path() / "golden_sets.json";
      if (std::filesystem::exists(file)) files.push_back(file);
    }
  }
  return files;
}

Parts parts_of_refused(const nlohmann::json& refused) {
  Parts parts;
  for (const auto& name : refused.at("adapters")) {
    const bool is_scaled = refused.contains("scales");
    parts.push_back({name, is_scaled ? refused["scales"].value(std::string(name), 1.0F) : 1.0F});
  }
  return parts;
}

bool has_all(const Engine& engine, const Parts& parts) {
  return std::ranges::all_of(
      parts, [&](const AdapterPart& part) { return engine.has_adapter(part.name); });
}

// All cases at once, each of them twice. Those with adapters that are not there are left out.
void expect_goldens(const std::filesystem::path& file, int num_devices) {
  SCOPED_TRACE(file.string());
  const auto loaded =
      TestEngine::load(file.parent_path(), DType::f32, small_engine_options(), num_devices);
  Engine& engine = *loaded->engine;
  std::ifstream stream(file);
  const nlohmann::json json = nlohmann::json::parse(stream);
  const std::vector<GoldenCase> all = read_golden(file);
  std::vector<std::pair<const GoldenCase*, std::unique_ptr<Generation>>> running;
  for (std::size_t i = 0; i < 2 * all.size(); ++i) {
    const GoldenCase& golden = all[i % all.size()];
    GenerationRequest request = request_for(golden);
    if (!has_all(engine, request.adapters)) continue;
    auto submitted = engine.submit(std::move(request));
    ASSERT_TRUE(submitted.ok()) << submitted.status().message();
    running.emplace_back(&golden, std::move(submitted).value());
  }
  EXPECT_GT(running.size(), all.size()) << "most of the adapters are there";
  for (const auto& [golden, generation] : running) {
    expect_golden(collect(*generation)[0], *golden);
  }
  for (const auto& refused : json.at("refused")) {
    const Parts parts = parts_of_refused(refused);
    if (!has_all(engine, parts)) continue;
    GenerationRequest request = greedy({5, 6, 7}, 4);
    request.adapters = parts;
    const Status status = engine.submit(std::move(request)).status();
    EXPECT_EQ(status.code(), StatusCode::invalid_argument) << refused.dump();
    for (const AdapterPart& part : parts) EXPECT_THAT(status.message(), HasSubstr(part.name));
  }
}

TEST(AdapterSetsGolden, AgreeWithTransformers) {
  ASSERT_FALSE(golden_files().empty());
  for (const auto& file : golden_files()) expect_goldens(file, 1);
}

TEST(AdapterSetsGolden, AgreeWithTransformersOnTwoDevices) {
  for (const auto& file : golden_files()) expect_goldens(file, 2);
}

const std::vector<std::string_view> kModules = {"q_proj", "v_proj", "down_proj"};

// Three adapters of a small model: "a", "b" and "c".
class AdapterSets : public ::testing::Test {
 protected:
  std::unique_ptr<Engine> make(EngineOptions options, double link_gbps = 0) {
    HostDeviceOptions device;
    device.num_threads = 2;
    device.link_gbps = link_gbps;
    devices_.push_back(make_host_device(device).value());
    options.num_pages = 16 * 64;
    auto engine = Engine::create(options, config_, *make_dummy_weights(7), DType::f32,
                                 *devices_.back(), *tokenizer_, clock_, nullptr)
                      .value();
    for (const std::string name : {"a", "b", "c"}) {
      EXPECT_TRUE(engine->load_adapter(name, write(name, name[0]), false, false).ok());
    }
    return engine;
  }
  std::string write(const std::string& name, char seed) {
    return testing::write_peft_adapter(dir_, name, config_, 24, kModules,
                                       static_cast<std::uint64_t>(seed));
  }
  static GenerationRequest with(Parts parts, TokenId first = 40) {
    std::vector<TokenId> prompt(40);
    for (std::size_t i = 0; i < prompt.size(); ++i) prompt[i] = first + static_cast<TokenId>(i);
    GenerationRequest request = greedy(std::move(prompt), 6);
    request.adapters = std::move(parts);
    return request;
  }
  static std::vector<TokenId> tokens(Engine& engine, GenerationRequest request) {
    return run(engine, std::move(request))[0].tokens;
  }
  static AdapterInfo info(const Engine& engine, const std::string& name) {
    const std::vector<AdapterInfo> all = engine.adapters();
    return *std::ranges::find(all, name, &AdapterInfo::name);
  }

  const ModelSpec config_ = small_model(6);
  testing::TempDir dir_;
  std::vector<std::unique_ptr<Device>> devices_;  // a test may have several engines
  WorkerFaults faults_;
  std::unique_ptr<Tokenizer> tokenizer_ = Tokenizer::load("data/demo-llama").value();
  SteadyClock clock_;
};

TEST_F(AdapterSets, AnswerTheSameInEveryModeAndFromFolders) {
  const std::vector<Parts> sets = {
      {{"a"}, {"b"}}, {{"a"}, {"b", 0.5F}}, {{"c", -1}, {"a"}, {"b"}}, {{"c", 2}}};
  std::vector<std::vector<TokenId>> right;
  {
    const auto engine = make(small_engine_options(256));
    for (const Parts& set : sets) right.push_back(tokens(*engine, with(set)));
    EXPECT_NE(right[2], right[0]);
    EXPECT_NE(right[3], right[0]);
  }
  for (const AdapterMode mode : kAdapterModes) {
    SCOPED_TRACE(to_string(mode));
    EngineOptions options = small_engine_options(256);
    options.adapter_mode = mode;
    const bool has_workers = hands_over(mode);
    if (has_workers) {
      options.handoff = in_process_workers(2, faults_);
      options.handoff.deadline_us = 5'000'000;
      options.handoff.costs.link_bytes_per_s = 1e3;
      options.handoff.costs.worker_job_s = 0;
      options.handoff.costs.trip_s = 0;
    }
    // Room for the largest sum and little more, so that adapters and sets drive each other out.
    options.host_tier_bytes = 1'200'000;
    const auto engine = make(options, has_workers ? 0.05 : 1);
    for (int round = 0; round < 3; ++round) {
      std::vector<std::unique_ptr<Generation>> running;
      for (const Parts& set : sets) running.push_back(engine->submit(with(set)).value());
      for (std::size_t i = 0; i < sets.size(); ++i) {
        const Collected got = collect(*running[i])[0];
        EXPECT_EQ(got.tokens, right[i]) << "set " << i << ": " << got.error.message();
      }
    }
  }
}

TEST_F(AdapterSets, AreOneWhateverTheOrderAndShareTheirPrefixesAlone) {
  EngineOptions options = small_engine_options(256);
  options.prefix_cache = true;
  options.page_tokens = 4;
  const auto engine = make(options);
  const auto cached = [&](Parts parts) {
    auto generation = engine->submit(with(std::move(parts))).value();
    (void)collect(*generation);
    return generation->stats().cached_tokens;
  };
  EXPECT_EQ(cached({{"a"}, {"b"}}), 0);
  EXPECT_EQ(cached({{"b"}, {"a"}}), 36);
  EXPECT_EQ(cached({{"a"}, {"b", 0.5F}}), 0);
  EXPECT_EQ(cached({{"a"}}), 0);
  EXPECT_EQ(cached({{"a"}, {"c", 0}}), 36) << "nothing is left of c";
  EXPECT_EQ(cached({{"a", 0}}), 0);
  GenerationRequest base = with({});
  auto generation = engine->submit(base).value();
  (void)collect(*generation);
  EXPECT_EQ(generation->stats().cached_tokens, 36) << "with a scale of 0 the base answers";
  EXPECT_EQ(engine->adapter_sets().size(), 2U);
  EXPECT_EQ(info(*engine, "b").hits + info(*engine, "b").cold_starts, 3U);
}

TEST_F(AdapterSets, GoWithAnAdapterThatIsReplacedOrUnloaded) {
  const auto engine = make(small_engine_options(256));
  const std::vector<TokenId> before = tokens(*engine, with({{"a"}, {"b"}}));
  (void)tokens(*engine, with({{"a"}, {"c"}}));
  auto running = engine->submit(with({{"a"}, {"b"}}, 90)).value();
  ASSERT_TRUE(engine->load_adapter("b", write("other", 'x'), true, false).ok());
  EXPECT_EQ(engine->adapter_sets().size(), 1U);
  EXPECT_TRUE(collect(*running)[0].error.ok());
  EXPECT_NE(tokens(*engine, with({{"a"}, {"b"}})), before);
  ASSERT_TRUE(engine->unload_adapter("a").ok());
  EXPECT_TRUE(engine->adapter_sets().empty());
  const Status gone = engine->submit(with({{"a"}, {"b"}})).status();
  EXPECT_EQ(gone.code(), StatusCode::not_found);
  EXPECT_THAT(gone.message(), HasSubstr("'a'"));
}

TEST_F(AdapterSets, AreForgottenWhenTooManyAreIdle) {
  const auto engine = make(small_engine_options(256));
  const Parts first = {{"a"}, {"b", 0.25F}};
  const std::vector<TokenId> right = tokens(*engine, with(first));
  for (int i = 1; i <= 70; ++i) {
    (void)tokens(*engine, with({{"a"}, {"b", 1 + static_cast<float>(i) / 64}}));
  }
  EXPECT_EQ(engine->adapter_sets().size(), 64U);
  EXPECT_EQ(tokens(*engine, with(first)), right) << "made again";
}

TEST_F(AdapterSets, AreRefusedWithoutMeaning) {
  const auto engine = make(small_engine_options(256));
  const auto refusal = [&](Parts parts) {
    const Status status = engine->submit(with(std::move(parts))).status();
    EXPECT_EQ(status.code(), StatusCode::invalid_argument);
    return status.message();
  };
  EXPECT_THAT(refusal({{"a"}, {"b"}, {"a", 0.5F}}), HasSubstr("'a' is given twice"));
  EXPECT_THAT(refusal({{"a", std::numeric_limits<float>::infinity()}}), HasSubstr("not finite"));
  EXPECT_THAT(refusal(Parts(9, {"a"})), HasSubstr("1 to 8 adapters, not 9"));
  EngineOptions options = small_engine_options(256);
  options.max_lora_rank = 40;
  const auto narrow = make(options);
  EXPECT_THAT(narrow->submit(with({{"a"}, {"b"}})).status().message(),
              AllOf(HasSubstr("'a' and 'b'"), HasSubstr("add up to 48"), HasSubstr("up to 40")));
}

}  // namespace
}  // namespace tandem::test
