// The request that a golden answers, and how near an answer is to it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>

#include "tests/support/golden.h"
#include "tests/support/test_engine.h"

namespace tandem::test {

// The tolerance of log probabilities in float32.
inline constexpr float kGoldenTolerance = 2e-3F;
// Where the two best tokens are nearer, another order of additions may choose the other one.
inline constexpr float kGoldenNearTie = 10 * kGoldenTolerance;

inline GenerationRequest request_for(const GoldenCase& golden) {
  GenerationRequest request =
      greedy(golden.prompt, static_cast<std::int32_t>(golden.output.size()), golden.adapter);
  if (!golden.scales.empty()) request.adapter.clear();
  for (const auto& [name, scale] : golden.scales) request.adapters.push_back({name, scale});
  request.skip_special_tokens = false;
  request.num_logprobs = 0;
  return request;
}

// Compares as many tokens as there are before the first near-tie, at least one.
inline void expect_golden(const Collected& got, const GoldenCase& golden) {
  ASSERT_EQ(got.tokens.size(), golden.output.size()) << golden.name() << got.error.message();
  const auto tie = std::ranges::find_if(golden.margins, [](float m) { return m < kGoldenNearTie; });
  const auto certain =
      std::max<std::size_t>(1, static_cast<std::size_t>(tie - golden.margins.begin()));
  for (std::size_t i = 0; i < certain; ++i) {
    ASSERT_EQ(got.tokens[i], golden.output[i]) << golden.name() << ", output token " << i;
    ASSERT_NEAR(got.logprobs[i].logprob, golden.logprobs[i], kGoldenTolerance)
        << golden.name() << ", output token " << i;
  }
}

}  // namespace tandem::test
