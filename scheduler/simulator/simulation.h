// A cluster in simulated time: requests come, a policy sends each to an engine, engines serve them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "scheduler/policies/policy.h"
#include "scheduler/simulator/sim_engine.h"
#include "scheduler/simulator/workload.h"

namespace tandem {

struct SimulationOptions {
  WorkloadOptions workload;
  SimMachine machine;
  ColdStart cold_start = ColdStart::cpu_assist;
  bool mixed_steps = true;
  SimLineOptions line;  // of each engine
  std::int32_t engines = 60;
  double warmup_s = 30;  // requests that come before it are served but not counted
  // The SLO is on the time per token (latency over tokens), as in the CaraServe paper: so many
  // times what one request of mean lengths takes alone, its adapter merged into the model
  // (HF-PEFT).
  double slo_factor = 1.5;
  // Policies are told what of a prompt each engine may have in its prefix cache, by what was sent.
  bool tell_prefixes = true;
  double satisfied_ttft_s = 6;  // S-LoRA: user satisfaction falls to nought at it
};

struct Distribution {
  double mean = 0;
  double p50 = 0;
  double p99 = 0;
  std::vector<std::pair<double, double>> cdf;  // (value, share that is not above it)
};

// Requests that have not begun, at one moment.
struct QueueLength {
  double at_s = 0;
  std::int64_t all = 0;      // with those that no engine has room for
  std::int64_t longest = 0;  // at one engine
};

// Of the requests that came in the counted time. Milliseconds.
struct PolicyResult {
  std::string policy;
  std::int64_t requests = 0;
  std::int64_t given_up = 0;    // before they began; they miss their SLO
  std::int64_t unfinished = 0;  // an hour after the last came; they miss their SLO
  double slo_attainment = 0;    // share of requests
  double satisfaction = 0;      // mean of max(0, 1 - TTFT / satisfied_ttft_s)
  Distribution ttft_ms;
  Distribution tpot_ms;   // between tokens after the first, of answers with two or more
  Distribution token_ms;  // latency over tokens
  Distribution latency_ms;
  double cached_share = 0;  // of the prompts' tokens, in the whole time: not computed
  double cold_share = 0;    // of requests whose adapter was not resident when they came
  std::int64_t loads = 0;   // of adapters, in the whole time
  std::int64_t fetches = 0;
  double tokens_per_s = 0;  // of answers
  double simulated_s = 0;
  double wall_s = 0;
  double decision_us = 0;          // median of a sample
  std::vector<QueueLength> queue;  // kQueueMoments evenly over the time in which requests come
};

inline constexpr std::int64_t kQueueMoments = 200;

// Seconds for a token that an engine of this machine takes alone, times the factor.
double slo_token_s(const SimulationOptions& options, const Workload& workload);
// Requests a second that the cluster serves at most, with full batches and no cold starts.
double capacity_per_s(const SimulationOptions& options, const Workload& workload);
// What is wrong with the options, if anything.
Status check_options(const SimulationOptions& options);

// `progress` hears the simulated seconds now and then. The same options give the same result but
// for wall_s and decision_us.
Result<PolicyResult> simulate_policy(const std::string& policy, const SimulationOptions& options,
                                     const AzureTrace* trace, const Clock& clock,
                                     const std::function<void(double)>& progress);

}  // namespace tandem
