// The requests of a simulation: arrival, adapter and lengths. The same seed gives the same requests
// for every policy.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/status.h"
#include "scheduler/cluster/simulator/azure_trace.h"
#include "scheduler/cluster/simulator/popularity.h"
#include "scheduler/cluster/view/engine_view.h"

namespace tandem {

struct SimRequest {
  double arrival_s = 0;
  ClusterAdapterId adapter;
  std::int32_t rank = 0;
  std::int32_t prompt_tokens = 1;
  std::int32_t answer_tokens = 1;
  // Prompt tokens that other requests of this adapter begin with as well, and the prefix's number.
  std::int32_t prefix_tokens = 0;
  std::int64_t prefix = -1;
};

struct WorkloadOptions {
  // poisson; gamma: gaps of the whole traffic with `cv` (S-LoRA's bursts are per adapter);
  // rise_and_fall: Poisson at a rate that rises from nought to twice the mean and falls again;
  // trace: calls spread evenly over their minute; recorded: the requests of `recorded`, unchanged.
  std::string arrivals = "poisson";
  double requests_per_s = 340;  // a trace is scaled to this rate
  double cv = 3;
  double duration_s = 300;
  std::int64_t adapters = 40'000;
  std::string popularity = "azure";
  double zipf_exponent = 1;
  // alpaca: log-normal, means 19 and 58 (the vLLM paper's figure 11), sigma 0.6 and 0.9, cut at
  // 512; sharegpt: means 161 and 338, sigma 1.0 and 0.8, cut at 1024; arena: means 85 and 165
  // (S-LoRA's figure 7), with the same widths; uniform: 8 to 512 for both (S-LoRA).
  std::string lengths = "alpaca";
  std::vector<std::int32_t> ranks = {8, 16, 32, 64};  // chosen by the adapter's hash, equally often
  // Number of shared prefixes per adapter, equally frequent and added to the lengths above, and
  // their tokens; 0: none.
  std::int32_t prefixes = 0;
  std::int32_t prefix_tokens = 500;
  double shift_at = 0;  // share of the time after which other adapters are popular; 0: never
  std::uint64_t seed = 1;
  const std::vector<SimRequest>* recorded = nullptr;  // by time; outlives the workload
};

// Not thread-safe.
class Workload {
 public:
  // `trace` is used only for arrivals = trace, and then outlives the workload.
  static Result<Workload> create(const WorkloadOptions& options, const AzureTrace* trace);

  // In order of arrival; ends after the duration, or after the last recorded request.
  std::optional<SimRequest> next();

  // Data for planning: means over many draws or over the recorded requests, and the largest rank.
  double mean_prompt_tokens() const { return mean_prompt_tokens_; }
  double mean_answer_tokens() const { return mean_answer_tokens_; }
  double mean_rank() const { return mean_rank_; }
  std::int32_t largest_rank() const { return largest_rank_; }

 private:
  struct Length {
    double mean = 0, sigma = 0;  // log-normal
  };
  Workload(WorkloadOptions options, const AzureTrace* trace);

  std::optional<double> next_arrival();
  void measure_recorded();
  bool fill_minute();  // false: the trace is over
  std::int32_t draw_length(const Length& length, std::mt19937_64& random) const;

  WorkloadOptions options_;
  const AzureTrace* trace_;
  double trace_scale_ = 1;
  std::optional<WeightedChoice> choice_;
  // Separate generators, so that one option does not change the draws of the others.
  std::mt19937_64 arrivals_;
  std::mt19937_64 adapters_;
  std::mt19937_64 lengths_;
  std::mt19937_64 prefixes_;
  Length prompt_;
  Length answer_;
  std::int32_t most_tokens_ = 512;
  double now_s_ = 0;
  std::vector<std::pair<double, std::int32_t>> minute_;  // calls of this minute, in reverse order
  std::size_t next_minute_ = 0;
  std::size_t next_recorded_ = 0;
  double mean_prompt_tokens_ = 0;
  double mean_answer_tokens_ = 0;
  double mean_rank_ = 0;
  std::int32_t largest_rank_ = 0;
};

}  // namespace tandem
