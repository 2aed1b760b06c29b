// Punica's cluster: consolidation under a rising and falling load, and migration by recomputation.
#include <fmt/format.h>

#include <algorithm>

#include "tools/bench/papers/paper_machines.h"
#include "tools/bench/papers/punica.h"

namespace tandem::papers {
namespace {

struct Use {
  double engines = 0;  // mean number that run a request
  double batch = 0;    // mean batch of those
};

Use use_of(const PolicyResult& result) {
  Use use;
  double running = 0;
  for (const QueueLength& at : result.queue) {
    use.engines += static_cast<double>(at.busy);
    running += static_cast<double>(at.running);
  }
  use.batch = use.engines > 0 ? running / use.engines : 0;
  use.engines /= static_cast<double>(std::max<std::size_t>(result.queue.size(), 1));
  return use;
}

}  // namespace

Result<Findings> punica_cluster(const PapersBench& bench) {
  constexpr double kPeak = 0.8;  // of the cluster's capacity
  Findings found;
  SimulationOptions options =
      one_engine(bench, paper_machine(LoraKernel::mbgmv, kLlama7b, kA100_40));
  options.engines = 16;
  options.cold_start = SimColdStart::async;  // Punica loads adapters while others run
  options.mixed_steps = true;
  options.warmup_s = 0;
  options.workload.arrivals = "rise_and_fall";
  options.workload.duration_s = bench.quick ? 600 : 3600;
  options.workload.popularity = "zipf";
  options.workload.zipf_exponent = 1.5;
  options.workload.adapters = 1000;
  options.workload.ranks = {16};
  options.workload.lengths = "sharegpt";
  TANDEM_ASSIGN(const Workload workload, Workload::create(options.workload, nullptr));
  options.workload.requests_per_s = kPeak / 2 * capacity_per_s(options, workload);
  std::vector<Use> uses;
  double tokens_per_s = 0;
  double even_tokens_per_s = 0;
  for (const std::string_view policy : {"punica", "most_idle", "random", "tandem"}) {
    TANDEM_ASSIGN(const PolicyResult result, simulate(bench, options, policy));
    for (const QueueLength& at : result.queue) {
      found.add(policy, at.at_s, static_cast<double>(at.busy));
    }
    uses.push_back(use_of(result));
    if (policy == "punica") tokens_per_s = result.tokens_per_s;
    if (policy == "most_idle") even_tokens_per_s = result.tokens_per_s;
  }
  found.here = fmt::format(
      "engines in use of 16, batch of each: punica {:.1f}, {:.1f}; most_idle {:.1f}, {:.1f}; "
      "random "
      "{:.1f}, {:.1f}; tandem {:.1f}, {:.1f}; {:.0f} tokens/s under punica",
      uses[0].engines, uses[0].batch, uses[1].engines, uses[1].batch, uses[2].engines,
      uses[2].batch, uses[3].engines, uses[3].batch, tokens_per_s);
  found.judge(uses[0].engines < 0.8 * uses[1].engines && tokens_per_s > 0.97 * even_tokens_per_s,
              "punica uses as many engines as most_idle, or serves less");
  return found;
}

// A request of n tokens moves by one prefill of them; its KV would cross the link twice, to host
// memory and to the other engine.
Result<Findings> punica_migration(const PapersBench&) {
  Findings found;
  bool recompute_wins = true;
  for (const auto& [name, machine] :
       {std::pair("A10", sim_machine("a10", LoraKernel::mbgmv).value()),
        std::pair("H200", sim_machine("h200", LoraKernel::mbgmv).value())}) {
    for (const std::int64_t tokens : {64, 128, 256, 512, 1024, 2048}) {
      const double recomputed = machine.costs.prefill_time_s({.requests = 1, .tokens = tokens});
      const double moved =
          2.0 * static_cast<double>(tokens * token_bytes(kLlama7b)) / machine.cold.link_bytes_per_s;
      found.add(fmt::format("{}, recomputed", name), static_cast<double>(tokens), recomputed * 1e3);
      found.add(fmt::format("{}, moved", name), static_cast<double>(tokens), moved * 1e3);
      recompute_wins = recompute_wins && recomputed <= 1.1 * moved;
    }
  }
  found.here = fmt::format(
      "512 tokens: A10 {:.0f} ms recomputed, {:.0f} ms moved; H200 {:.1f} and {:.1f} ms",
      found.at("A10, recomputed", 512), found.at("A10, moved", 512),
      found.at("H200, recomputed", 512), found.at("H200, moved", 512));
  found.judge(
      recompute_wins,
      "a step of its own reads all weights, however short the prompt, and links have become "
      "faster; recomputation shares the step of those that run, and needs no protocol");
  return found;
}

}  // namespace tandem::papers
