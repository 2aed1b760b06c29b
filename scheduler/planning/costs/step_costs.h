// The time of one engine step by its batch: the two linear models of the CaraServe paper (section
// 5), one for each way of batching LoRA products, with added terms for tokens. For schedulers; the
// engine's planner uses CostModel (cost_model.h) for cold layers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/status.h"

namespace tandem {

// How the device multiplies by adapters of several ranks, which decides how ranks count.
enum class LoraKernel {
  bgmv,   // padded: rows x the largest rank of the batch
  mbgmv,  // not padded: the sum of the rows' ranks
};

// Requests that decode together, one row each, as sums. A rank of 0 is the base model.
struct DecodeLoad {
  std::int64_t requests = 0;
  std::int64_t rank_sum = 0;
  std::int32_t rank_max = 0;
  std::int64_t context_tokens = 0;  // tokens whose KV the step reads

  void add(const DecodeLoad& other) {
    requests += other.requests;
    rank_sum += other.rank_sum;
    rank_max = std::max(rank_max, other.rank_max);
    context_tokens += other.context_tokens;
  }
};

// Prompts that are computed together, as sums.
struct PrefillLoad {
  std::int64_t requests = 0;
  std::int64_t tokens = 0;
  std::int64_t rank_tokens = 0;  // sum over the prompts: rank x tokens
  std::int32_t rank_max = 0;

  void add(const PrefillLoad& other) {
    requests += other.requests;
    tokens += other.tokens;
    rank_tokens += other.rank_tokens;
    rank_max = std::max(rank_max, other.rank_max);
  }
};

// Seconds, none below zero. scheduler/cluster/simulator/machine.h has figures of machines.
struct StepCosts {
  LoraKernel kernel = LoraKernel::bgmv;
  double step_s = 0;                // per step: the base model's weights, launches
  double request_s = 0;             // per row that decodes
  double rank_s = 0;                // per unit of decode_ranks()
  double context_token_s = 0;       // per token of KV that decoding rows read
  double prefill_token_s = 0;       // per token of a prompt
  double prefill_rank_token_s = 0;  // per unit of prefill_ranks()

  double decode_ranks(const DecodeLoad& load) const {
    return static_cast<double>(kernel == LoraKernel::bgmv ? load.requests * load.rank_max
                                                          : load.rank_sum);
  }
  double prefill_ranks(const PrefillLoad& load) const {
    return static_cast<double>(kernel == LoraKernel::bgmv ? load.tokens * load.rank_max
                                                          : load.rank_tokens);
  }
  // Seconds that a batch adds to a step that runs anyway.
  double decode_work_s(const DecodeLoad& load) const {
    return request_s * static_cast<double>(load.requests) + rank_s * decode_ranks(load) +
           context_token_s * static_cast<double>(load.context_tokens);
  }
  double prefill_work_s(const PrefillLoad& load) const {
    return prefill_token_s * static_cast<double>(load.tokens) +
           prefill_rank_token_s * prefill_ranks(load);
  }
  // Seconds of a step of its own; 0 if the batch is empty.
  double decode_time_s(const DecodeLoad& load) const {
    return load.requests == 0 ? 0 : step_s + decode_work_s(load);
  }
  double prefill_time_s(const PrefillLoad& load) const {
    return load.requests == 0 ? 0 : step_s + prefill_work_s(load);
  }
  // Seconds of one step with both.
  double step_time_s(const DecodeLoad& decode, const PrefillLoad& prefill) const {
    if (decode.requests == 0 && prefill.requests == 0) return 0;
    return step_s + decode_work_s(decode) + prefill_work_s(prefill);
  }
};

// A timed step.
struct StepSample {
  DecodeLoad decode;
  PrefillLoad prefill;
  double step_s = 0;
};

struct StepCostsFit {
  StepCosts costs;
  double r2 = 0;  // of the step times; 1: a perfect fit
};

// Fits by least squares of relative residuals (fit_linear). Needs at least 6 samples, none of an
// empty step, all with times above zero. A coefficient without any sample becomes zero.
Result<StepCostsFit> fit_step_costs(LoraKernel kernel, const std::vector<StepSample>& samples);

}  // namespace tandem
