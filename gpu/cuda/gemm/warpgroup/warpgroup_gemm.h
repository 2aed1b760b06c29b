// GEMM for 33 to 64 rows (decoding of larger batches): streams the weights once, at the memory's
// speed, as skinny_gemm.h for fewer rows. Compute capability 9.0 alone (H100, H200).
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "base/status.h"
#include "gpu/ops.h"

namespace tandem::cuda {

// Wherever it takes the arguments it is taken. us on one H100, bf16, 64 rows, cold weights,
// launches back to back in a graph, by one block alone or a cluster of two; the floor at copy speed
// (3.0 TB/s) in brackets:
//                                       one    two    cuBLASLt, the heuristics' first
//   llama-2-7b   qkv          (33.5)    35.9   -      37.9
//                o            (11.2)    16.1   14.9   14.6
//                gate and up  (60.1)    62.6   63.8   71.4
//                down         (30.1)    38.8   35.0   38.1
//   llama-3-8b   qkv                    19.5   18.9   20.3
//                gate and up            81.2   -      86.6
//                down                   -      44.3   46.9
// At 48 rows alike: 35.3, 14.3, 62.3 and 33.8 for llama-2-7b. These are of an earlier version,
// whose sums did not go through shared memory.
constexpr int kWarpgroupMaxRows = 64;

// What of the current GPU the kernel must know; `supported` is false on others than sm_90, and in a
// build without code for it.
struct WarpgroupDevice {
  bool supported = false;
  int processors = 0;
  int clusters_of_2 = 0;  // that run at a time, one block on a multiprocessor
  int shared_bytes = 0;   // largest per block
  decltype(&cuTensorMapEncodeTiled) encode = nullptr;
};
// Also makes the kernels ready to launch. Call once before launch_warpgroup_gemm, outside a
// capture.
Result<WarpgroupDevice> prepare_warpgroup_gemm();

// Whether the kernel computes these: f16 or bf16, 1 to 64 rows, in % 64 == 0, 16-byte aligned x
// rows and w.
bool warpgroup_gemm_takes(const GemmArgs& args);

// Enqueues; never allocates or synchronises. The launch's shape depends on the shapes of `args`
// alone. Sums are in one fixed order: the same for a given number of rows, in and out. Reads w
// before the kernels before it in the stream have ended: nothing may write w on the stream.
Status launch_warpgroup_gemm(const GemmArgs& args, const WarpgroupDevice& device,
                             cudaStream_t stream);

}  // namespace tandem::cuda
