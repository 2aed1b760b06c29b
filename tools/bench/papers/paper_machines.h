// The papers' machines and workloads for the simulator.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "scheduler/cluster/simulator/simulation.h"
#include "tools/bench/papers/experiment.h"

namespace tandem::papers {

struct PaperModel {
  double billions = 6.74;  // parameters
  std::int32_t layers = 32;
  std::int32_t hidden = 4096;
  std::int32_t kv_width = 4096;  // of K, and of V
};
inline constexpr PaperModel kLlama7b;
inline constexpr PaperModel kLlama13b{13.0, 40, 5120, 5120};
inline constexpr PaperModel kLlama70b{69.0, 80, 8192, 1024};

// Figures of data sheets.
struct PaperCard {
  double bytes_per_s = 600e9;
  double flops_per_s = 125e12;
  double memory_bytes = 24e9;
};
inline constexpr PaperCard kA10;
inline constexpr PaperCard kA10g{600e9, 70e12, 24e9};
inline constexpr PaperCard kA100_40{1555e9, 312e12, 40e9};
inline constexpr PaperCard kA100_80{2039e9, 312e12, 80e9};

// `cards` cards that share one model: the simulator's `a10` with its times scaled by the model's
// bytes and products and by the cards' data sheets. A tenth of the memory is left to activations,
// and 3 GiB a card are the adapters'. All adapters are in host memory.
SimMachine paper_machine(LoraKernel kernel, const PaperModel& model, const PaperCard& card,
                         std::int32_t cards = 1);

// One engine with these costs, prompts in steps of their own as in LightLLM, on which S-LoRA and
// CaraServe are built. 300 simulated seconds, quick: 90.
SimulationOptions one_engine(const PapersBench& bench, SimMachine machine);

// S-LoRA's synthetic workload: 200 adapters by a power law with exponent 1, lengths of 8 to 512.
SimulationOptions s_lora_engine(const PapersBench& bench, SimMachine machine, double rate);

// The calls of --azure-trace or, without it, Poisson arrivals with the published skew of those
// traces.
void use_azure(const PapersBench& bench, WorkloadOptions& workload);

// Runs one policy; with one engine all are equal.
Result<PolicyResult> simulate(const PapersBench& bench, const SimulationOptions& options,
                              std::string_view policy = "tandem");

// Requests per second, from the tokens per second and the mean answer.
double served_per_s(const PolicyResult& result, const SimulationOptions& options);

// Bytes of K and V of one token in bf16.
std::int64_t token_bytes(const PaperModel& model);

}  // namespace tandem::papers
