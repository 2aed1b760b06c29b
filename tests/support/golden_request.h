// The request that a golden answers.
#pragma once

#include "tests/support/golden.h"
#include "tests/support/test_engine.h"

namespace tandem::test {

inline GenerationRequest request_for(const GoldenCase& golden) {
  GenerationRequest request =
      greedy(golden.prompt, static_cast<std::int32_t>(golden.output.size()), golden.adapter);
  request.skip_special_tokens = false;
  request.num_logprobs = 0;
  return request;
}

}  // namespace tandem::test
