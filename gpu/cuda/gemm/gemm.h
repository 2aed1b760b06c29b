// The GEMM operation of gpu/ops.h on CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <span>

#include "base/status.h"
#include "gpu/cuda/base/device_memory.h"
#include "gpu/cuda/gemm/lt_gemm.h"
#include "gpu/cuda/gemm/packed/packed_gemm.h"
#include "gpu/cuda/gemm/skinny_gemm.h"
#include "gpu/cuda/gemm/warpgroup/warpgroup_gemm.h"
#include "gpu/ops.h"

namespace tandem::cuda {

// One per stream, as products of one object share a workspace. Not thread-safe.
class Gemm {
 public:
  static Result<std::unique_ptr<Gemm>> create();

  // Enqueues; never allocates device memory or synchronises. Launch shapes depend only on the
  // shapes of the arguments, so it may be captured. Kernels are loaded at their first use, so run a
  // shape once before capturing it. Shapes that do not match are the caller's bug (TANDEM_CHECK).
  Status run(const GemmArgs& args, cudaStream_t stream);
  // Both operations, in one kernel if there are few rows.
  Status run(const GemmSwigluArgs& args, cudaStream_t stream);

  // Implements Stream::arrange. Must not be called while the stream records.
  Status arrange(Weight& weight, cudaStream_t stream);

  // Implements Stream::tune_gemm. Must not be called while the stream records.
  Status tune(std::span<const GemmArgs> like, cudaStream_t stream);

 private:
  Gemm(std::unique_ptr<LtGemm> lt, const SkinnyDevice& skinny, const WarpgroupDevice& warpgroup,
       PackedGemm packed)
      : lt_(std::move(lt)), skinny_(skinny), warpgroup_(warpgroup), packed_(std::move(packed)) {}
  // By rows of w that are dequantised to x's dtype, in slices that fit into the scratch memory.
  Status run_unpacked(const GemmArgs& args, cudaStream_t stream);
  // Allocates the scratch memory at the first call.
  Status prepare_scratch();

  std::unique_ptr<LtGemm> lt_;
  SkinnyDevice skinny_;
  WarpgroupDevice warpgroup_;
  PackedGemm packed_;
  DeviceMemory scratch_;  // of products by packed weights; null before the first
};

}  // namespace tandem::cuda
