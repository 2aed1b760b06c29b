// Every family of models against transformers + PEFT, through the whole engine, in float32: greedy
// tokens and their log probabilities, of the base and of its adapters. Folders come from
// data/families, data/gguf and data/quant, and from $TANDEM_FAMILIES, if it is set; those of
// families that are refused are left out there, with a line that says so.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string_view>
#include <vector>

#include "engine/loader/shard.h"
#include "engine/model/families/registry.h"
#include "engine/model/spec/spread.h"
#include "tests/support/golden.h"
#include "tests/support/golden_request.h"
#include "tests/support/sanitized.h"
#include "tests/support/test_engine.h"

namespace tandem::test {
namespace {

std::vector<GoldenModel> family_models() {
  std::vector<std::filesystem::path> roots = {"data/families", "data/gguf", "data/quant"};
  if (const char* const more = std::getenv("TANDEM_FAMILIES")) roots.emplace_back(more);
  std::vector<GoldenModel> models;
  for (std::size_t i = 0; i < roots.size(); ++i) {
    const std::filesystem::path& root = roots[i];
    const bool own = i < 3;
    for (const auto& each : std::filesystem::directory_iterator(root)) {
      const std::filesystem::path golden = each.path() / "golden_tiny.json";
      if (!std::filesystem::exists(golden)) continue;
      const std::filesystem::path gguf = each.path() / "model.gguf";
      const std::filesystem::path model = std::filesystem::exists(gguf) ? gguf : each.path();
      const Result<ModelSpec> spec = load_model_spec(model);
      if (!own && !spec) {
        std::cerr << "left out: " << spec.status().message() << "\n";
        continue;
      }
      const std::string place = own ? "" : "all_";
      models.push_back({place + each.path().filename().string(), model, golden});
    }
  }
  std::ranges::sort(models, {}, &GoldenModel::name);
  return models;
}

class FamilyGolden : public ::testing::TestWithParam<GoldenModel> {
 protected:
  // All cases at once, so that rows of several adapters and windows share steps.
  void run_all(const EngineOptions& options, int num_devices = 1) {
    auto engine = TestEngine::load(GetParam().dir, DType::f32, options, num_devices);
    std::vector<GoldenCase> cases = read_golden(GetParam().golden);
    std::erase_if(cases, [&](const GoldenCase& golden) {
      return !golden.adapter.empty() && !engine->engine->has_adapter(golden.adapter);
    });
    std::vector<std::unique_ptr<Generation>> running;
    for (const GoldenCase& golden : cases) {
      running.push_back(engine->engine->submit(request_for(golden)).value());
    }
    for (std::size_t i = 0; i < cases.size(); ++i) {
      expect_golden(collect(*running[i])[0], cases[i]);
    }
  }
};

TEST_P(FamilyGolden, AgreesWithTransformersInMixedBatches) {
  run_all(small_engine_options());
}

TEST_P(FamilyGolden, AgreesWithPromptsInChunksOfSevenAndSmallPages) {
  EngineOptions options = small_engine_options();
  options.max_prefill_chunk = 7;
  options.page_tokens = 4;
  options.num_pages *= 4;
  run_all(options);
}

class FamilyShards : public FamilyGolden {};

TEST_P(FamilyShards, AgreeWithTransformers) {
  EngineOptions options = small_engine_options();
  options.max_prefill_chunk = 50;
  run_all(options, 2);
}

// Threads do the same for every family: under the thread sanitizer these stand for all.
constexpr std::array<std::string_view, 5> kFamiliesForThreads = {"adapters_llama", "alora",
                                                                 "gemma3", "gemma4", "qwen2"};

// Those whose sizes two devices can share.
std::vector<GoldenModel> shared_models() {
  std::vector<GoldenModel> models = family_models();
  std::erase_if(models, [](const GoldenModel& model) {
    if (thread_sanitized() &&
        std::ranges::find(kFamiliesForThreads, model.name) == kFamiliesForThreads.end()) {
      return true;
    }
    return !check_shards(spread_over(load_model_spec(model.dir).value(), 2), 2).ok();
  });
  return models;
}

std::string name_of(const ::testing::TestParamInfo<GoldenModel>& param) {
  return param.param.name;
}
INSTANTIATE_TEST_SUITE_P(Models, FamilyGolden, ::testing::ValuesIn(family_models()), name_of);
INSTANTIATE_TEST_SUITE_P(Models, FamilyShards, ::testing::ValuesIn(shared_models()), name_of);

}  // namespace
}  // namespace tandem::test
