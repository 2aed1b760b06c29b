// A cluster in simulated time: requests arrive, a policy sends each to an engine, engines serve
// them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "scheduler/cluster/policies/policy.h"
#include "scheduler/cluster/simulator/sim_engine.h"
#include "scheduler/cluster/simulator/workload.h"

namespace tandem {

struct SimulationOptions {
  WorkloadOptions workload;
  SimMachine machine;
  SimColdStart cold_start = SimColdStart::cpu_assist;
  bool mixed_steps = true;
  SimLineOptions line;  // per engine
  std::int32_t engines = 60;
  double warmup_s = 30;  // requests that arrive earlier are served but not counted
  // The SLO limits the time per token (latency / tokens), as in the CaraServe paper: this factor
  // times the time of a request of mean lengths that runs alone with its adapter merged into the
  // model (HF-PEFT).
  double slo_factor = 1.5;
  // Whether policies get the probable prefix cache content of each engine, derived from sent
  // prompts.
  bool tell_prefixes = true;
  double satisfied_ttft_s = 6;  // S-LoRA: user satisfaction falls to 0 at this TTFT
};

struct Distribution {
  double mean = 0;
  double p50 = 0;
  double p99 = 0;
  std::vector<std::pair<double, double>> cdf;  // (value, share of samples up to it)
};

// Requests that have not begun, and what runs, at one time.
struct QueueLength {
  double at_s = 0;
  std::int64_t all = 0;      // with requests for which no engine has room
  std::int64_t longest = 0;  // at one engine
  std::int64_t running = 0;  // requests that have begun
  std::int64_t busy = 0;     // engines that run any
};

// Results over the requests that arrived in the counted time. Times are in milliseconds.
struct PolicyResult {
  std::string policy;
  std::int64_t requests = 0;
  std::int64_t given_up = 0;    // before they began; they miss their SLO
  std::int64_t unfinished = 0;  // an hour after the last arrival; they miss their SLO
  double slo_attainment = 0;    // share of requests
  double satisfaction = 0;      // mean of max(0, 1 - TTFT / satisfied_ttft_s)
  double ttft_attainment = 0;   // share of requests whose TTFT is at most satisfied_ttft_s
  Distribution ttft_ms;
  Distribution tpot_ms;   // between tokens after the first, of answers with two or more
  Distribution token_ms;  // latency / tokens
  Distribution latency_ms;
  double cached_share = 0;  // prompt tokens that were not computed, over the whole time
  double cold_share = 0;    // requests whose adapter was not resident at their arrival
  std::int64_t loads = 0;   // of adapters, over the whole time
  std::int64_t fetches = 0;
  double tokens_per_s = 0;  // of answers
  double simulated_s = 0;
  double wall_s = 0;
  double decision_us = 0;          // median of a sample
  std::vector<QueueLength> queue;  // kQueueMoments samples, evenly over the time of arrivals
};

inline constexpr std::int64_t kQueueMoments = 200;

// The SLO in seconds per token: the time of a request alone on this machine, times the factor.
double slo_token_s(const SimulationOptions& options, const Workload& workload);
// The highest rate of requests per second that the cluster serves, with full batches and no cold
// starts.
double capacity_per_s(const SimulationOptions& options, const Workload& workload);
// An error if the options are invalid.
Status check_options(const SimulationOptions& options);

// `progress` is called now and then with the simulated seconds. The same options give the same
// result except wall_s and decision_us.
Result<PolicyResult> simulate_policy(const std::string& policy, const SimulationOptions& options,
                                     const AzureTrace* trace, const Clock& clock,
                                     const std::function<void(double)>& progress);

}  // namespace tandem
