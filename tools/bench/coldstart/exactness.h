// Compares the answers of two engines: a fixed set of greedy requests, each with a cold adapter, by
// tokens and log-probabilities (C8).
#pragma once

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "tools/bench/coldstart/cold_engine.h"

namespace tandem {

struct ExactAnswer {
  std::vector<TokenLogprob> prompt;  // for every token except the first
  std::vector<TokenLogprob> output;  // with the best tokens of each position
};

// Prompts of several lengths one after another, then four at once. Adds adapters, and removes them
// at the end.
Result<std::vector<ExactAnswer>> exact_answers(ColdEngine& engine, std::int32_t rank);

// The effect of an adapter: the largest difference between a prompt's log-probabilities with it and
// those of the base model.
Result<double> adapter_effect(ColdEngine& engine, std::int32_t rank);

// The allowed difference of log-probabilities: two ways of computing the same sums round
// differently in every layer. The golden results of the tests allow the same.
double logprob_tolerance(DType dtype);

struct Agreement {
  std::int64_t tokens = 0;        // compared
  std::int64_t wrong_tokens = 0;  // different from the reference's, which was not a near-tie
  // Answers that took another token where the reference's two candidates were closer than the
  // tolerance; the following tokens have another context and are not compared.
  std::int64_t near_ties = 0;
  double max_difference = 0;  // of log-probabilities of equal tokens

  void add(const Agreement& other);
};
Agreement compare_answers(const std::vector<ExactAnswer>& reference,
                          const std::vector<ExactAnswer>& answers, double tolerance);

}  // namespace tandem
