// Whether two engines answer alike: a fixed set of greedy requests, each with an adapter that is
// cold when it is asked for, their tokens and log-probabilities side by side (C8).
#pragma once

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "tools/bench/coldstart/cold_engine.h"

namespace tandem {

struct ExactAnswer {
  std::vector<TokenLogprob> prompt;  // of every token but the first
  std::vector<TokenLogprob> output;  // with the best few of each position
};

// Prompts of several lengths one after another, then four at once. Adds adapters, and clears.
Result<std::vector<ExactAnswer>> exact_answers(ColdEngine& engine, std::int32_t rank);

// What an adapter changes: the largest difference of a prompt's log-probabilities from the base's.
Result<double> adapter_effect(ColdEngine& engine, std::int32_t rank);

// What log-probabilities may differ by: two ways to the same sums round differently, layer after
// layer. What the golden results of the tests allow, too.
double logprob_tolerance(DType dtype);

struct Agreement {
  std::int64_t tokens = 0;        // compared
  std::int64_t wrong_tokens = 0;  // other than the reference's, which was not in doubt
  // Answers that went another way where the reference's two candidates were closer than the
  // tolerance; what follows there has another past and is not compared.
  std::int64_t near_ties = 0;
  double max_difference = 0;  // of log-probabilities of the same token

  void add(const Agreement& other);
};
Agreement compare_answers(const std::vector<ExactAnswer>& reference,
                          const std::vector<ExactAnswer>& answers, double tolerance);

}  // namespace tandem
