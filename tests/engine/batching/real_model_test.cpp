// A model that writes sentences, Gemma 3 270M (tools/fetch-model), and the adapter that
// tools/train-adapter makes of it: tokens and greedy answers against transformers + PEFT, through
// the whole engine. Skipped, with a line that says so, where the files are not there:
// $TANDEM_REAL_MODEL names the GGUF file (models/gemma-3-270m.gguf if it is not set), and the
// adapter is beside it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/loader/model_files.h"
#include "tests/support/golden.h"
#include "tests/support/golden_request.h"
#include "tests/support/test_engine.h"

namespace tandem::test {
namespace {

namespace fs = std::filesystem;

fs::path model_file() {
  const char* const named = std::getenv("TANDEM_REAL_MODEL");
  return named != nullptr ? named : "../models/gemma-3-270m.gguf";
}

fs::path adapter_folder() {
  fs::path folder = fs::weakly_canonical(model_file()).replace_extension();
  return folder += "-adapter";
}

class RealModel : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(model_file())) {
      GTEST_SKIP() << "there is no " << model_file()
                   << "; tools/fetch-model gemma-3-270m fetches it";
    }
    if (!fs::exists(adapter_folder())) {
      GTEST_SKIP() << "there is no " << adapter_folder() << "; tools/train-adapter makes it";
    }
    cases_ = read_golden(adapter_folder() / "golden.json");
  }

  // All cases at once; the adapter's first rows come while it is cold.
  void expect_golden(DType dtype, float near_tie, float tolerance) {
    EngineOptions options = small_engine_options(2048);
    options.host_tier_bytes = std::size_t{64} << 20;
    auto engine = TestEngine::load(model_file(), dtype, options);
    const Status loaded =
        engine->engine->load_adapter("keeper", adapter_folder().string(), false, false);
    ASSERT_TRUE(loaded) << loaded.message();
    std::vector<std::unique_ptr<Generation>> running;
    for (const GoldenCase& golden : cases_) {
      running.push_back(engine->engine->submit(request_for(golden)).value());
    }
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      const GoldenCase& golden = cases_[i];
      const Collected got = collect(*running[i])[0];
      ASSERT_EQ(got.tokens.size(), golden.output.size()) << golden.name();
      for (std::size_t k = 0; k < golden.output.size(); ++k) {
        // Behind a near-tie that went the other way, contexts differ.
        if (got.tokens[k] != golden.output[k] && golden.margins[k] < near_tie) break;
        ASSERT_EQ(got.tokens[k], golden.output[k]) << golden.name() << ", output token " << k;
        EXPECT_NEAR(got.logprobs[k].logprob, golden.logprobs[k], tolerance)
            << golden.name() << ", output token " << k;
      }
    }
  }

  std::vector<GoldenCase> cases_;
};

TEST_F(RealModel, AgreesWithTransformersInFloat32) {
  expect_golden(DType::f32, 2e-2F, 2e-3F);
}

// A bf16 has 8 bits of mantissa: logits, which reach 30, move by up to a quarter.
TEST_F(RealModel, AgreesWithTransformersInBf16ButForNearTies) {
  expect_golden(DType::bf16, 0.5F, 0.5F);
}

TEST_F(RealModel, TheAdapterChangesTheAnswers) {
  for (std::size_t i = 0; i + 1 < cases_.size(); i += 2) {
    EXPECT_EQ(cases_[i].prompt, cases_[i + 1].prompt);
    EXPECT_NE(cases_[i].output, cases_[i + 1].output) << cases_[i].name();
  }
}

TEST_F(RealModel, TokensOfTextsAreThoseOfTransformers) {
  const Result<std::string> json =
      read_model_file(model_file(), "tokenizer.json", std::uint64_t{256} << 20);
  ASSERT_TRUE(json.ok()) << json.status().message();
  const auto tokenizer = Tokenizer::parse(*json).value();
  std::ifstream stream(adapter_folder() / "golden.json");
  for (const auto& prompt : nlohmann::json::parse(stream).at("prompts")) {
    const auto text = prompt.at("text").get<std::string>();
    EXPECT_EQ(tokenizer->encode(text, true).value(), prompt.at("ids").get<std::vector<TokenId>>())
        << text;
  }
}

}  // namespace
}  // namespace tandem::test
