// GEMM for 33 to 64 rows (decoding of larger batches): reads the weights once, at memory speed,
// like skinny_gemm.h for fewer rows. Requires compute capability 9.0 (H100, H200).
#pragma once

#include <cuda_runtime_api.h>

#include "base/status.h"
#include "gpu/cuda/base/tensor_map.h"
#include "gpu/cuda/gemm/few_rows/few_rows.h"
#include "gpu/ops.h"

namespace tandem::cuda {

// Used for more rows than kSkinnyMaxRows if it supports the arguments. In us on one H100, bf16,
// cold weights, launches back to back in a graph, ours / cuBLASLt's (the heuristics' first); in
// brackets the lower bound at copy speed (3.01 TB/s):
//   rows                        48            64
//   llama-2-7b  qkv    (33.6)   35.1 / 39.9   36.1 / 37.8
//               o      (11.3)   13.8 / 14.5   14.0 / 14.6
//               gate and up (60.1)
//                               63.9 / 67.5   63.8 / 71.1
//               down   (30.1)   32.4 / 37.3   33.0 / 38.0
//   llama-3-8b  qkv             18.1 / 21.4   18.4 / 20.2
//               gate and up     83.1 / 86.9   84.5 / 86.4
//               down            41.1 / 46.0   41.9 / 46.8
// With single blocks instead of clusters of two, o and down take 16.1 and 38.8. Finishing in
// registers and reading y early (7B, 64 rows, one H200, before and after): qkv 28.1, 26.5; o 11.8,
// 11.3; gate and up 48.1, 45.9; down 25.0, 24.4.
constexpr int kWarpgroupMaxRows = 64;

// Properties of the current GPU that the kernel needs; `supported` is false on GPUs other than
// sm_90, and in a build without code for it.
struct WarpgroupDevice {
  bool supported = false;
  int processors = 0;
  int clusters_of_2 = 0;  // resident at once, one block per multiprocessor
  int shared_bytes = 0;   // maximum per block
  EncodeTensorMap encode = nullptr;
};
// Also prepares the kernels. Call once before launch_warpgroup_gemm, outside a
// capture.
Result<WarpgroupDevice> prepare_warpgroup_gemm();

// True if the kernel supports these arguments: has_few_rows() with up to 64 rows.
bool warpgroup_gemm_takes(const GemmArgs& args);
// True if it can also end in swiglu; it cannot if two blocks would share their sums.
bool warpgroup_gemm_ends_in_swiglu(const GemmArgs& args, const WarpgroupDevice& device);

// Enqueues; never allocates or synchronises. The launch shape depends only on the shapes of `args`.
// Sums have a fixed order: the same for a given number of rows, in and out on such a device. Reads
// w before earlier kernels of the stream have ended, so nothing may write w on the stream.
// GemmEnd::swiglu and geglu require: no bias, no accumulation, y of x's dtype.
Status launch_warpgroup_gemm(const GemmArgs& args, const WarpgroupDevice& device,
                             cudaStream_t stream, GemmEnd end = GemmEnd::store);

}  // namespace tandem::cuda
