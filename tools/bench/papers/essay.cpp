// The essay on serving many tenants from one model: what a token costs.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tools/bench/papers/paper_machines.h"

namespace tandem::papers {
namespace {

constexpr std::int32_t kRank = 16;

SimulationOptions saturated(const PapersBench& bench, double tenants) {
  SimulationOptions options =
      one_engine(bench, paper_machine(LoraKernel::mbgmv, kLlama7b, kA100_80));
  options.mixed_steps = true;
  options.cold_start = SimColdStart::async;
  options.workload.lengths = "arena";
  options.workload.popularity = "uniform";
  options.workload.adapters = static_cast<std::int64_t>(tenants);
  options.workload.ranks = {kRank};
  options.workload.duration_s = bench.quick ? 60 : 120;
  options.warmup_s = 0;
  return options;
}

// Tokens a second of one GPU: batched across adapters; with a GPU for each tenant; merged in turn.
Result<Findings> tokens_and_cost(const PapersBench& bench) {
  Findings found;
  const std::vector<double> counts =
      bench.quick ? std::vector<double>{1, 8, 64} : std::vector<double>{1, 2, 4, 8, 16, 32, 64};
  for (const double tenants : counts) {
    SimulationOptions batched = saturated(bench, tenants);
    TANDEM_ASSIGN(const Workload workload, Workload::create(batched.workload, nullptr));
    batched.workload.requests_per_s = capacity_per_s(batched, workload);
    TANDEM_ASSIGN(const PolicyResult together, simulate(bench, batched));
    found.add("batched across adapters", tenants, together.tokens_per_s);

    // Each tenant's share of the same requests, on a GPU of its own with the adapter merged.
    SimulationOptions alone = batched;
    alone.cold_start = SimColdStart::cached;
    alone.machine.costs.rank_s = alone.machine.costs.prefill_rank_token_s = 0;
    alone.workload.requests_per_s /= tenants;
    TANDEM_ASSIGN(const PolicyResult one, simulate(bench, alone));
    found.add("a GPU each", tenants, one.tokens_per_s);

    SimulationOptions merged = batched;
    merged.machine.costs = alone.machine.costs;
    merged.machine.adapter_bytes = merged.machine.bytes_per_rank * kRank;
    merged.machine.cold.load_s =
        2.0 * kLlama7b.layers * 3 * kLlama7b.hidden * kLlama7b.hidden * 2 / kA100_80.bytes_per_s;
    merged.cold_start = SimColdStart::on_demand;
    TANDEM_ASSIGN(const PolicyResult in_turn, simulate(bench, merged));
    found.add("merged in turn", tenants, in_turn.tokens_per_s);
  }
  const double most = counts.back();
  const double batched = found.at("batched across adapters", most);
  const double each = found.at("a GPU each", most);
  const double turns = found.at("merged in turn", most);
  found.here = fmt::format(
      "64 tenants, tokens/s of a GPU: {:.0f} batched, {:.0f} with a GPU each, {:.0f} merged in "
      "turn; "
      "a token costs {:.0f} and {:.1f} times as much",
      batched, each, turns, batched / each, batched / turns);
  found.judge(batched > 0.9 * found.at("batched across adapters", 1) && batched > 2 * each &&
                  batched > turns,
              "batching across adapters is not the cheapest");
  return found;
}

// Time between tokens by batch.
Result<Findings> latency(const PapersBench&) {
  Findings found;
  const StepCosts costs = paper_machine(LoraKernel::mbgmv, kLlama7b, kA100_80).costs;
  for (const std::int64_t batch : {1, 2, 4, 8, 16, 32}) {
    const double step_s =
        costs.decode_time_s({.requests = batch, .rank_sum = batch * kRank, .rank_max = kRank});
    found.add("time between tokens, ms", static_cast<double>(batch), step_s * 1e3);
    found.add("tokens/s", static_cast<double>(batch), static_cast<double>(batch) / step_s);
  }
  const double slower =
      found.at("time between tokens, ms", 16) / found.at("time between tokens, ms", 1);
  found.here =
      fmt::format("batch 16 over 1: {:.1f} times the tokens/s, {:.2f} times the time a token",
                  found.at("tokens/s", 16) / found.at("tokens/s", 1), slower);
  found.judge(slower < 1.3, "a step grows with its batch");
  return found;
}

}  // namespace

std::vector<Experiment> essay_experiments() {
  return {
      {.id = "essay-1",
       .figure = "Essay, throughput",
       .claim =
           "tenants that share a batch cost little more than one; a model each costs a GPU each",
       .setting = "a 7B model, each request another adapter of rank 16, batches of 1 to 32",
       .theirs =
           "8 times the throughput at batch 16 of systems that serve one adapter at a time; A100",
       .how = "1 to 64 tenants on a simulated A100 80 GB at its capacity; merging rewrites q, k, v",
       .x_label = "tenants",
       .y_label = "tokens/s of a GPU",
       .run = tokens_and_cost,
       .log_x = true},
      {.id = "essay-2",
       .figure = "Essay, latency",
       .claim = "a batch of distinct adapters hardly lengthens the time between tokens",
       .setting = "as essay-1",
       .theirs = "nearly linear throughput, no significant latency (plot); A100",
       .ground = Ground::counted,
       .how = "the A10's published cost model, scaled to an A100; punica-1 measures it",
       .x_label = "batch",
       .y_label = "ms; tokens/s",
       .run = latency,
       .log_x = true},
  };
}

}  // namespace tandem::papers
