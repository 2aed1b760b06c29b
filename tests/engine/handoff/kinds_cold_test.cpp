// Cold starts of every kind of adapter in every mode, against transformers + PEFT: heads,
// embeddings, tokens, grown vocabularies, biases, high ranks, sets, activated LoRAs and score
// heads.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/golden.h"
#include "tests/support/golden_request.h"
#include "tests/support/handoff_engine.h"
#include "tests/support/sanitized.h"
#include "tests/support/test_seed.h"

namespace tandem::test {
namespace {

// So slow that an adapter takes some steps to arrive.
constexpr double kLinkGbps = 0.003;

struct Way {
  const char* name;
  AdapterMode mode;
  std::function<void(EngineOptions&)> adjust = nullptr;
  int num_devices = 1;
};

void PrintTo(const Way& way, std::ostream* out) {
  *out << way.name;
}

// For each layer of each adapter that workers may compute: wait, workers, or workers for x A alone.
HandoffPlan random_plan(const PlanRequest& request) {
  static std::mt19937 random(static_cast<std::mt19937::result_type>(test_seed()));
  HandoffPlan plan;
  for (std::size_t i = 0; i < request.adapters.size(); ++i) {
    const ColdAdapter& adapter = request.adapters[i];
    auto& choices = plan.choices.emplace_back(adapter.layers.size(), LayerChoice::wait);
    if (!adapter.may_hand_over) continue;
    for (LayerChoice& choice : choices) choice = static_cast<LayerChoice>(random() % 3);
  }
  plan.layer_ends.assign(request.adapters.front().layers.size(), 0);
  return plan;
}

// The host tier holds about one adapter at a time, so that most of them come from their folders.
void leave_on_disk(EngineOptions& options) {
  options.host_tier_bytes = std::size_t{512} << 10;
}

// A sanitizer computes the ways that differ most.
std::vector<Way> ways() {
  const auto at_random = [](EngineOptions& options) {
    options.handoff.plan = [](const CostModel&, const PlanRequest& request) {
      return random_plan(request);
    };
  };
  const Way random{"planned_at_random", AdapterMode::planned, at_random};
  const Way by_workers{"cpu_assist", AdapterMode::cpu_assist};
  if (thread_sanitized()) return {by_workers};
  if (sanitized()) return {by_workers, random};
  return {by_workers,
          random,
          {"planned_on_two_devices", AdapterMode::planned, nullptr, 2},
          {"planned_from_disk", AdapterMode::planned, leave_on_disk},
          {"planned", AdapterMode::planned},
          {"pipelined", AdapterMode::pipelined},
          {"on_demand", AdapterMode::on_demand}};
}

using Kind = std::tuple<const char*, Way>;  // a folder of data/families

class ColdKinds : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    const Way& way = std::get<Way>(GetParam());
    const auto adjust = [&](EngineOptions& options) {
      options.num_pages = 800;
      options.handoff.max_rows = options.max_num_batched_tokens;
      if (way.adjust) way.adjust(options);
    };
    engine_ = HandoffEngine::load(folder(), way.mode, kLinkGbps, adjust, way.num_devices);
  }
  static std::filesystem::path folder() {
    return std::filesystem::path("data/families") / std::get<const char*>(GetParam());
  }
  // While nothing reaches the device, workers compute the adapters that they may take.
  void expect_goldens_of_workers() {
    std::map<std::string, std::vector<GoldenCase>> by_adapter;
    for (GoldenCase& golden : read_golden(folder() / "golden_tiny.json")) {
      by_adapter[golden.adapter].push_back(std::move(golden));
    }
    engine_->gate().close(LoadGate::kAll);
    std::int64_t layers = 0;
    for (const auto& [adapter, cases] : by_adapter) {
      if (adapter.empty() || !is_for_workers(adapter)) continue;
      std::vector<std::unique_ptr<Generation>> running;
      for (const GoldenCase& golden : cases) {
        running.push_back(engine_->engine->submit(request_for(golden)).value());
      }
      for (std::size_t i = 0; i < cases.size(); ++i) {
        expect_golden(collect(*running[i])[0], cases[i]);
        layers += running[i]->stats().cpu_layers;
      }
      EXPECT_GT(std::exchange(layers, 0), 0) << adapter;
    }
  }
  bool is_for_workers(const std::string& adapter) const {
    const SiteRanks ranks = engine_->engine->adapter_store().find(adapter)->contents().site_ranks;
    for (std::size_t site = 0; site < ranks.size(); ++site) {
      if (ranks[site] > 0 && !takes_offers(static_cast<Site>(site))) return false;
    }
    return true;
  }
  // All at once, so that steps have rows of several cold adapters.
  void expect_goldens(const std::filesystem::path& file) {
    if (!std::filesystem::exists(file)) return;
    const std::vector<GoldenCase> cases = read_golden(file);
    std::vector<std::pair<const GoldenCase*, std::unique_ptr<Generation>>> running;
    for (const GoldenCase& golden : cases) {
      auto submitted = engine_->engine->submit(request_for(golden));
      if (submitted) running.emplace_back(&golden, std::move(submitted).value());
    }
    EXPECT_GT(running.size(), cases.size() / 3) << "most of the adapters are there";
    for (const auto& [golden, generation] : running) {
      expect_golden(collect(*generation)[0], *golden);
    }
  }
  void expect_scores(const std::filesystem::path& file) {
    if (!std::filesystem::exists(file)) return;
    const nlohmann::json golden = nlohmann::json::parse(std::ifstream(file));
    for (const nlohmann::json& each : golden["cases"]) {
      GenerationRequest request =
          greedy(golden["prompts"][each["prompt"].get<std::size_t>()]["ids"], 0, each["adapter"]);
      request.pooling = Pooling::classes;
      const auto generation = engine_->engine->submit(std::move(request)).value();
      const std::vector<float> scores = generation->next(std::chrono::minutes(1))->pooled;
      ASSERT_EQ(scores.size(), each["logits"].size());
      for (std::size_t i = 0; i < scores.size(); ++i) {
        EXPECT_NEAR(scores[i], each["logits"][i].get<float>(), kGoldenTolerance);
      }
    }
  }
  std::unique_ptr<HandoffEngine> engine_;
};

TEST_P(ColdKinds, AnswerAsInTransformers) {
  if (std::get<Way>(GetParam()).mode == AdapterMode::cpu_assist) expect_goldens_of_workers();
  engine_->open();
  expect_goldens(folder() / "golden_tiny.json");
  expect_goldens(folder() / "golden_sets.json");
  expect_scores(folder() / "golden_score.json");
}

std::vector<TokenId> answer_of_rank_2048(AdapterMode mode) {
  auto engine = HandoffEngine::make(mode, 0, mode == AdapterMode::cached ? 0 : 0.1);
  engine->open();
  const ModelSpec config = handoff_config();
  Adapter adapter = make_dummy_adapter(config, DType::f32, 2048, {"q_proj"}, 3);
  EXPECT_TRUE(
      engine->engine->adapter_store().add(handoff_name(0), std::move(adapter), false, false).ok());
  return run(*engine->engine, handoff_request(0, 9, 6))[0].tokens;
}

TEST(ColdRank2048, AnswersAsOnTheDevice) {
  const auto expected = answer_of_rank_2048(AdapterMode::cached);
  for (const AdapterMode mode : kAdapterModes) {
    if (sanitized() && mode != AdapterMode::cpu_assist) continue;
    EXPECT_EQ(answer_of_rank_2048(mode), expected) << to_string(mode);
  }
}

std::string name_of(const ::testing::TestParamInfo<Kind>& param) {
  return std::string(std::get<const char*>(param.param)) + "_" + std::get<Way>(param.param).name;
}
INSTANTIATE_TEST_SUITE_P(Folders, ColdKinds,
                         ::testing::Combine(::testing::Values("adapters_llama", "adapters_tied",
                                                              "adapters_tokens", "alora", "score"),
                                            ::testing::ValuesIn(ways())),
                         name_of);

}  // namespace
}  // namespace tandem::test
