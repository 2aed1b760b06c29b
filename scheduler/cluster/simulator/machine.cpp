#include "scheduler/cluster/simulator/machine.h"

#include <fmt/ranges.h>

namespace tandem {
namespace {

// q, k and v of Llama-2-7B: 32 layers x 3 modules x (4096 + 4096) x 2 bytes for each unit of rank.
constexpr std::int64_t kLlama7bBytesPerRank = std::int64_t{32} * 3 * 8192 * 2;
constexpr std::int64_t kGiB = std::int64_t{1} << 30;

// The machine of the CaraServe paper. Its decode lines are read from figure 5, which gives two
// latencies for each kernel: 34.8 and 35.8 ms at 24 x 32 and 16 x 64 (BGMV), 35.3 and 35.9 ms
// (MBGMV), rounded to a tenth; the BGMV slope is the smallest that fits the rounding, because the
// figure's instance 2 stays below 36 ms with a 17th request. Like the paper's models they have no
// term for context. Prefill: 13.5 GFLOP for a token of a 7B model at half of the A10's 125 TFLOP/s.
// LoRA of prompts: a tenth of a decode row's cost, because tokens of a prompt read the same weights
// from the cache (our assumption; the paper gives no figure). Link: rank 64 is 100 MB, and figure 3
// has loads of "a few to tens of milliseconds"; 10 GB/s. Memory: 24 GB less 13.5 for weights and
// 1.5 for activations.
SimMachine a10(LoraKernel kernel) {
  const bool padded = kernel == LoraKernel::bgmv;
  SimMachine machine;
  machine.name = "a10";
  machine.description =
      "Llama-2-7B on one A10, 12 CPU workers: the CaraServe paper's figure 5 (decode) and data "
      "sheet";
  machine.costs = {.kernel = kernel,
                   .step_s = padded ? 32.12e-3 : 33.5e-3,
                   .rank_s = padded ? 3.55e-6 : 2.34e-6,
                   .prefill_token_s = 0.22e-3,
                   .prefill_rank_token_s = padded ? 0.355e-6 : 0.234e-6};
  machine.cold.link_bytes_per_s = 10e9;
  machine.max_requests = 32;  // the Punica paper's value for its batches
  machine.kv_tokens = 12'000;
  machine.adapter_bytes = 3 * kGiB;
  machine.host_bytes = 64 * kGiB;
  machine.bytes_per_rank = kLlama7bBytesPerRank;
  return machine;
}

// Measured by `tandem profile` on one H200 (scheduler/planning/costs/cost_model.h): 127 us per
// layer plus 0.76 us per row, a link of 55 GB/s. LoRA rows and KV are bound by memory bandwidth, of
// which reads reach 2.9 TB/s.
SimMachine h200(LoraKernel kernel) {
  constexpr double kReadBytesPerS = 2.9e12;
  SimMachine machine;
  machine.name = "h200";
  machine.description = "Llama-2-7B on one H200, 12 CPU workers: the built-in profile";
  machine.costs = {
      .kernel = kernel,
      .step_s = 32 * 127e-6,
      .rank_s = static_cast<double>(kLlama7bBytesPerRank) / kReadBytesPerS,
      .context_token_s = 32.0 * 2 * 4096 * 2 / kReadBytesPerS,
      .prefill_token_s = 32 * 0.76e-6,
      .prefill_rank_token_s = 0.1 * static_cast<double>(kLlama7bBytesPerRank) / kReadBytesPerS};
  machine.max_requests = 256;
  machine.step_tokens = 2048;
  machine.kv_tokens = 200'000;
  machine.adapter_bytes = 10 * kGiB;
  machine.host_bytes = 64 * kGiB;
  machine.bytes_per_rank = kLlama7bBytesPerRank;
  return machine;
}

}  // namespace

std::vector<std::string> sim_machine_names() {
  return {"a10", "h200"};
}

Result<SimMachine> sim_machine(std::string_view name, LoraKernel kernel) {
  if (name == "a10") return a10(kernel);
  if (name == "h200") return h200(kernel);
  return invalid("machine '{}' is unknown; there are {}", name,
                 fmt::join(sim_machine_names(), ", "));
}

}  // namespace tandem
