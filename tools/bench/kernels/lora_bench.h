// Times LoRA operations, one case at a time, with cold caches, after checking their results.
#pragma once

#include <functional>
#include <vector>

#include "gpu/cuda/lora/kernels/plan.h"
#include "gpu/ops.h"
#include "tools/bench/kernels/gpu_bench.h"
#include "tools/bench/kernels/lora_cases.h"

namespace tandem::kernels {

// A step to time: segment s has counts[s] rows of an adapter of rank ranks[s].
struct LoraStep {
  std::int32_t in = 0;
  std::int32_t out = 0;
  std::vector<std::int32_t> counts;
  std::vector<std::int32_t> ranks;
  double expected_us = 0;  // estimate, from which the number of operations per replay follows
  bool rows_in_order = false;
};
LoraStep step_of(const LoraCase& lora_case);

class LoraBench {
 public:
  static constexpr int kReplays = 50;

  static Result<LoraBench> create(GpuBench& gpu);

  // A way to run the operation; the default is cuda::launch_lora without overlap between
  // operations, because the peers' figures had none.
  using Launch = std::function<Status(const LoraArgs&, cudaStream_t)>;

  // Lays the step out, checks one run (a wrong result is an error), and times it.
  Result<GpuTimes> run(const LoraStep& step, const Launch& launch, int replays = kReplays);
  // The largest error of the last run, relative to the tolerance.
  double last_error() const { return last_error_; }

 private:
  explicit LoraBench(GpuBench& gpu) : gpu_(&gpu) {}
  Status check(const LoraArgs& args, const Launch& launch);

  GpuBench* gpu_;
  GpuMemory weights_, x_, y_, before_, v_, meta_;
  double last_error_ = 0;
};

// Runs cuda::launch_lora with its own choice of kernel, without overlap between operations.
Status launch_planned(const LoraArgs& args, cudaStream_t stream);

}  // namespace tandem::kernels
