// GEMM by an arranged packed weight (gpu/cuda/packed) for few rows of x (decoding), which reads the
// codes once. sm_90 and later.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "base/status.h"
#include "gpu/cuda/base/tensor_map.h"
#include "gpu/cuda/gemm/few_rows/few_rows.h"
#include "gpu/cuda/gemm/packed/kernel/packed_plan.h"
#include "gpu/ops.h"

namespace tandem::cuda {

// Each stream has one of its own. Not thread-safe.
class PackedGemm {
 public:
  static Result<PackedGemm> create();

  // True for arranged weights, x of f16 or bf16, 1 to 64 rows (1 to 16 on GPUs other than
  // Hopper's), 16-byte aligned rows of x.
  bool takes(const GemmArgs& args) const;

  // Enqueues; never allocates or synchronises. The launch shape depends only on the shapes of
  // `args`. Sums have a fixed order: the same for a given number of rows, in and out on such a
  // device. Reads w and bias before earlier kernels of the stream have ended, so nothing may write
  // them on the stream. Requires takes(args), y of f32 or x's dtype, and for GemmEnd::swiglu and
  // geglu: no bias, no accumulation, y of x's dtype. `scratch` holds x in w's order of columns, if
  // it has one: x.rows() * x.cols() elements, aligned to 16 bytes.
  Status run(const GemmArgs& args, std::byte* scratch, cudaStream_t stream,
             GemmEnd end = GemmEnd::store);

 private:
  PackedDevice device_;
  EncodeTensorMap encode_ = nullptr;
  std::vector<const void*> prepared_;  // kernels that may use all shared memory
};

}  // namespace tandem::cuda
