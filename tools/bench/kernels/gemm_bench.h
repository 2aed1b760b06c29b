// Times the GEMMs of decode steps with cold weights: our own kernels and cuBLASLt, checked first.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/cuda/gemm/lt_gemm.h"
#include "gpu/cuda/gemm/skinny_gemm.h"
#include "gpu/cuda/gemm/warpgroup/warpgroup_gemm.h"
#include "gpu/ops.h"
#include "tools/bench/kernels/gpu_bench.h"

namespace tandem::kernels {

// y = x w^T in bf16, or y += x w^T in f32 when `residual`.
struct GemmCase {
  std::string model;
  std::string product;  // "qkv", "o", "gate_up", "down"
  std::int32_t in = 0;
  std::int32_t out = 0;
  bool residual = false;
  std::int32_t rows = 0;

  std::string name() const;  // "llama-2-7b qkv n8"
  double bytes() const;      // w, x and y, each moved once; y twice when residual
};
// llama-2-7b and llama-3-8b at 1, 8, 32, 48 and 64 rows.
std::vector<GemmCase> gemm_cases();

struct GemmTimes {
  std::optional<GpuTimes> own;  // nothing if no kernel of ours takes the case
  GpuTimes library;
  bool own_chosen = false;  // by cuda::Gemm
  const GpuTimes& chosen() const { return own_chosen ? *own : library; }
};

class GemmBench {
 public:
  static constexpr int kReplays = 50;

  static Result<GemmBench> create(GpuBench& gpu);

  // Checks one run of each implementation against plain loops (a wrong result is an error), then
  // times each, back to back over different weights as in the layers of a model.
  Result<GemmTimes> run(const GemmCase& gemm_case, int replays = kReplays);
  // The largest error of the last run, relative to the tolerance.
  double last_error() const { return last_error_; }

 private:
  explicit GemmBench(GpuBench& gpu) : gpu_(&gpu) {}
  GemmArgs args_of(const GemmCase& gemm_case, int copy) const;
  Status enqueue(const GemmArgs& args, bool own);
  Result<GpuTimes> time(const GemmCase& gemm_case, bool own, int replays);

  GpuBench* gpu_;
  std::unique_ptr<cuda::LtGemm> library_;
  cuda::SkinnyDevice skinny_;
  cuda::WarpgroupDevice warpgroup_;
  GpuMemory weights_, x_, y_, before_;
  double last_error_ = 0;
};

}  // namespace tandem::kernels
