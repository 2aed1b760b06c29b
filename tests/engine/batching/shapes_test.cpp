// Models and adapters of unusual sizes: a batch of many must equal one at a time.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/test_engine.h"

namespace tandem::test {
namespace {

struct Shape {
  const char* name;
  std::int64_t hidden, layers, heads, kv_heads, head_dim, ffn, vocab;
  bool tied;
  bool qkv_bias = false;
  bool qk_norm = false;
};

ModelSpec config_of(const Shape& shape) {
  DecoderShape config;
  config.hidden_size = shape.hidden;
  config.num_layers = shape.layers;
  config.num_heads = shape.heads;
  config.num_kv_heads = shape.kv_heads;
  config.head_dim = shape.head_dim;
  config.ffn_size = shape.ffn;
  config.vocab_size = shape.vocab;
  config.max_position_embeddings = 256;
  config.tie_word_embeddings = shape.tied;
  config.qkv_bias = shape.qkv_bias;
  if (shape.qk_norm) config.qk_norm = QkNorm::head;
  config.eos_token_ids = {1};
  return decoder_of(config);
}

class OddShapes : public ::testing::TestWithParam<Shape> {};

TEST_P(OddShapes, AnswerTheSameAloneAndInABatchOfAdapters) {
  const ModelSpec config = config_of(GetParam());
  EngineOptions options = small_engine_options(256);
  options.page_tokens = 5;
  // The adapters of rank 512 on matrices of about a hundred rows are larger than all KV.
  options.num_pages = 4096;
  options.host_tier_bytes = std::size_t{128} << 20;
  auto engine = TestEngine::dummy(config, DType::f32, options);
  const std::vector<std::int32_t> ranks = {1, 3, 5, 12, 40, 512};
  const std::vector<std::vector<std::string_view>> modules = {
      {"q_proj"},
      {"k_proj", "down_proj"},
      {"v_proj", "gate_proj"},
      {"o_proj", "up_proj"},
      {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"},
      {"gate_proj", "up_proj", "down_proj"}};
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    Adapter adapter = make_dummy_adapter(config, DType::f32, ranks[i], modules[i], 50 + i);
    ASSERT_TRUE(engine->engine->adapter_store()
                    .add(fmt::format("r{}", ranks[i]), std::move(adapter), false, false)
                    .ok());
  }
  std::vector<GenerationRequest> requests;
  for (std::size_t i = 0; i < 14; ++i) {
    std::vector<TokenId> prompt;
    for (std::size_t k = 0; k < 3 + 5 * i; ++k) {
      prompt.push_back(
          static_cast<TokenId>((k * 37 + i * 11) % static_cast<std::size_t>(config.vocab_size)));
    }
    const std::size_t which = i % (ranks.size() + 1);
    requests.push_back(
        greedy(prompt, 12, which == ranks.size() ? "" : fmt::format("r{}", ranks[which])));
  }
  std::vector<std::vector<TokenId>> alone;
  for (const GenerationRequest& request : requests) {
    alone.push_back(run(*engine->engine, request)[0].tokens);
    EXPECT_EQ(alone.back().size(), 12U);
  }
  std::vector<std::unique_ptr<Generation>> running;
  for (const GenerationRequest& request : requests) {
    running.push_back(engine->engine->submit(request).value());
  }
  for (std::size_t i = 0; i < running.size(); ++i) {
    EXPECT_EQ(collect(*running[i])[0].tokens, alone[i]) << "request " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, OddShapes,
    ::testing::Values(Shape{"hidden_100", 100, 2, 5, 5, 20, 150, 301, true},
                      Shape{"three_heads", 72, 3, 3, 1, 24, 201, 997, false},
                      Shape{"seven_heads", 126, 1, 7, 7, 18, 333, 512, true, true},
                      Shape{"wide_heads", 60, 2, 6, 2, 50, 90, 640, false, false, true}),
    [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace tandem::test
