// After the last layer's attention a step continues with only the rows that get logits, whatever
// adapters they have.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "tests/engine/model/graphs_fixture.h"

namespace tandem::test {
namespace {

struct Prompt {
  std::int32_t length;
  int adapter;  // -1: the base model
  std::vector<std::int32_t> sampled;
};

// Inputs by layer, and last layers that read the keys of earlier ones.
ModelSpec model_of_one_group() {
  ModelSpec spec = small_model_with_layer_inputs();
  for (LayerSpec& layer : spec.layers) layer.attention.window = 0;
  return spec;
}

class DroppedRows : public GraphsFixture, public ::testing::WithParamInterface<bool> {
 protected:
  DroppedRows() : GraphsFixture(GetParam() ? model_of_one_group() : small_model(2)) {}

  // Computes tokens of a prompt from `start` on; its last row is sampled if `is_end`.
  void compute(const std::vector<TokenId>& tokens, std::int64_t start, bool is_end) {
    batch_->clear();
    const std::int32_t first =
        batch_->add_sequence(tokens, start, tables_.back().pages(), kPageTokens, slot_of(2));
    const auto last = first + static_cast<std::int32_t>(tokens.size()) - 1;
    if (is_end) batch_->add_sample(last, {}, {}, {});
    const StepInput input = batch_->upload(*stream_);
    model_->forward(*stream_, input, *cache_, tier_->lane(0).table());
  }

  // Returns the logits of the sampled rows, in their order.
  std::vector<float> logits_of(const std::vector<Prompt>& prompts) {
    tables_.clear();
    batch_->clear();
    std::int32_t count = 0;
    for (const Prompt& prompt : prompts) {
      tables_.emplace_back(pool_);
      EXPECT_TRUE(tables_.back().reserve(prompt.length));
      std::vector<TokenId> tokens;
      for (std::int32_t t = 0; t < prompt.length; ++t) {
        tokens.push_back((t * 37 + prompt.length) % static_cast<TokenId>(config_.vocab_size));
      }
      const std::int32_t first =
          batch_->add_sequence(tokens, 0, tables_.back().pages(), kPageTokens,
                               prompt.adapter < 0 ? AdapterSlot{} : slot_of(prompt.adapter));
      for (const std::int32_t row : prompt.sampled) {
        batch_->add_sample(first + row, {}, {}, {});
        ++count;
      }
    }
    const StepInput input = batch_->upload(*stream_);
    model_->forward(*stream_, input, *cache_, tier_->lane(0).table());
    return logits(count);
  }

  // Runs each prompt in its own step in which all rows get logits, so that no row is dropped.
  std::vector<float> logits_one_by_one(const std::vector<Prompt>& prompts) {
    std::vector<float> all;
    const auto width = static_cast<std::ptrdiff_t>(config_.vocab_size);
    for (Prompt prompt : prompts) {
      std::vector<std::int32_t> every(static_cast<std::size_t>(prompt.length));
      std::iota(every.begin(), every.end(), 0);
      const std::vector<std::int32_t> sampled = std::exchange(prompt.sampled, every);
      const std::vector<float> of = logits_of({prompt});
      for (const std::int32_t row : sampled) {
        all.insert(all.end(), of.begin() + row * width, of.begin() + (row + 1) * width);
      }
    }
    return all;
  }
};

TEST_P(DroppedRows, LeaveTheOthersLogitsAsTheyAre) {
  const std::vector<std::vector<Prompt>> steps = {
      {{9, 2, {8}}},
      {{12, 4, {11}}, {7, -1, {6}}, {9, 3, {8}}},
      // Rows get logits in another order than segments, twice, or not at all.
      {{6, 2, {5}}, {10, 4, {3, 9, 9}}, {8, 0, {}}, {5, 2, {4}}, {4, 1, {3}}},
      {{12, 2, {}}, {6, -1, {5}}},
      {{5, 4, {4}}, {1, 2, {0}}, {1, -1, {0}}, {9, 3, {}}},
  };
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const std::vector<float> expected = logits_one_by_one(steps[s]);
    const std::vector<float> got = logits_of(steps[s]);
    ASSERT_EQ(got.size(), expected.size());
    float largest = 0, worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      largest = std::max(largest, std::abs(expected[i]));
      worst = std::max(worst, std::abs(expected[i] - got[i]));
    }
    EXPECT_LE(worst, 1e-4F * largest) << "step " << s;
    EXPECT_GT(largest, 0);
  }
}

// A piece without logits ends behind the last keys.
TEST_P(DroppedRows, OfAPieceOfAPromptLeaveItsKeysAsTheyAre) {
  const std::vector<float> expected = logits_of({{11, 2, {10}}});
  std::vector<TokenId> tokens;
  for (std::int32_t t = 0; t < 11; ++t) {
    tokens.push_back((t * 37 + 11) % static_cast<TokenId>(config_.vocab_size));
  }
  tables_.emplace_back(pool_);
  ASSERT_TRUE(tables_.back().reserve(11));
  compute({tokens.begin(), tokens.begin() + 6}, 0, false);
  compute({tokens.begin() + 6, tokens.end()}, 6, true);
  const std::vector<float> got = logits(1);
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], expected[i], 1e-4F * std::max(1.0F, std::abs(expected[i])));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, DroppedRows, ::testing::Bool(), [](const auto& with_inputs) {
  return with_inputs.param ? "inputs_by_layer" : "decoder";
});

}  // namespace
}  // namespace tandem::test
