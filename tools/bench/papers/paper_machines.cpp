#include "tools/bench/papers/paper_machines.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace tandem::papers {
namespace {

constexpr double kBytes = 2;  // of a bf16 number
constexpr double kMemoryForUse = 0.9;
constexpr std::int64_t kAdapterBytes = std::int64_t{3} << 30;  // of each card

}  // namespace

std::int64_t token_bytes(const PaperModel& model) {
  return std::int64_t{2} * model.layers * model.kv_width * static_cast<std::int64_t>(kBytes);
}

SimMachine paper_machine(LoraKernel kernel, const PaperModel& model, const PaperCard& card,
                         std::int32_t cards) {
  SimMachine machine = sim_machine("a10", kernel).value();
  const double size = model.billions / kLlama7b.billions / cards;
  const double memory = kA10.bytes_per_s / card.bytes_per_s;
  const double products = kA10.flops_per_s / card.flops_per_s;
  // A card adds its part of q, k and v to the model's part that it computes.
  const std::int64_t bytes_per_rank =
      std::int64_t{model.layers} * 2 *
      (std::int64_t{3} * model.hidden + model.hidden + std::int64_t{2} * model.kv_width);
  const double adapters =
      static_cast<double>(bytes_per_rank) / static_cast<double>(machine.bytes_per_rank) / cards;
  machine.costs.step_s *= size * memory;
  machine.costs.rank_s *= adapters * memory;
  machine.costs.prefill_token_s *= size * products;
  machine.costs.prefill_rank_token_s *= adapters * memory;
  machine.cold.cpu_step_s *= static_cast<double>(model.layers) / kLlama7b.layers;
  machine.cold.cpu_rank_token_s *= adapters * cards;
  machine.cold.link_bytes_per_s *= cards;
  machine.cold.fetch_s = 0;
  machine.cold.fetch_bytes_per_s = 1e18;
  machine.host_bytes = std::numeric_limits<std::int64_t>::max() / 2;
  machine.bytes_per_rank = bytes_per_rank;
  machine.adapter_bytes = kAdapterBytes * cards;
  const double kv_bytes = card.memory_bytes * cards * kMemoryForUse -
                          model.billions * 1e9 * kBytes -
                          static_cast<double>(machine.adapter_bytes);
  machine.kv_tokens = std::max<std::int64_t>(
      2048, static_cast<std::int64_t>(kv_bytes / static_cast<double>(token_bytes(model))));
  return machine;
}

SimulationOptions one_engine(const PapersBench& bench, SimMachine machine) {
  SimulationOptions options;
  options.machine = std::move(machine);
  options.engines = 1;
  options.mixed_steps = false;
  options.workload.duration_s = bench.quick ? 90 : 300;
  options.warmup_s = bench.quick ? 10 : 30;
  return options;
}

SimulationOptions s_lora_engine(const PapersBench& bench, SimMachine machine, double rate) {
  SimulationOptions options = one_engine(bench, std::move(machine));
  options.cold_start = SimColdStart::async;  // S-LoRA fetches adapters while others run
  options.workload.lengths = "uniform";
  options.workload.popularity = "zipf";
  options.workload.adapters = 200;
  options.workload.requests_per_s = rate;
  options.workload.ranks = {64, 32, 16, 8};
  return options;
}

void use_azure(const PapersBench& bench, WorkloadOptions& workload) {
  workload.popularity = "azure";
  if (bench.trace != nullptr) workload.arrivals = "trace";
}

Result<PolicyResult> simulate(const PapersBench& bench, const SimulationOptions& options,
                              std::string_view policy) {
  const AzureTrace* trace = options.workload.arrivals == "trace" ? bench.trace : nullptr;
  return simulate_policy(std::string(policy), options, trace, bench.clock, {});
}

double served_per_s(const PolicyResult& result, const SimulationOptions& options) {
  const Result<Workload> workload = Workload::create(options.workload, nullptr);
  return workload ? result.tokens_per_s / workload->mean_answer_tokens() : 0;
}

}  // namespace tandem::papers
