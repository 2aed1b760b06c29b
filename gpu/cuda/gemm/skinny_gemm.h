// GEMM for few rows (decoding): reads the weights once, at memory speed. sm_90 and later.
#pragma once

#include <cuda_runtime_api.h>

#include "base/status.h"
#include "gpu/cuda/base/tensor_map.h"
#include "gpu/cuda/gemm/few_rows/few_rows.h"
#include "gpu/ops.h"

namespace tandem::cuda {

// Up to 32 rows it makes a layer faster, though not every single product. In us on one H200, bf16,
// llama-2-7b, launches back to back in a graph, ours / cuBLASLt's; in brackets the lower bound at
// copy speed (4.28 TB/s):
//   rows              1            8            16           32           64
//   qkv  (23.5)       25.4 / 27.8  25.1 / 28.2  25.5 / 28.4  26.3 / 28.8  33.2 / 28.3
//   o     (7.8)        9.0 / 12.9   9.1 / 12.6   9.5 / 12.9  10.3 / 13.4  13.5 / 11.4
//   gate and up (42.1) 44.8 / 44.2  43.0 / 45.2  43.9 / 44.8  45.5 / 45.1  61.0 / 47.0
//   down (21.1)       22.7 / 27.1  22.5 / 27.9  23.0 / 28.3  23.8 / 26.9  27.8 / 29.4
//   a layer, small kernels between    121 / 132    124 / 135    126 / 136    128 / 136    155 / 140
// (llama-3-8b is alike, but gate and up: 57.7 / 54.8 at one row, 59.2 / 61.6 at 32.) Beyond 32 rows
// too much of x is read from L2 in addition to w; warpgroup_gemm.h takes over.
constexpr int kSkinnyMaxRows = 32;

// Properties of the current GPU that the kernel needs; `supported` is false before sm_90.
struct SkinnyDevice {
  bool supported = false;
  int processors = 0;
  int shared_bytes = 0;  // maximum per block
  EncodeTensorMap encode = nullptr;
};
// Also prepares the kernels. Call once before launch_skinny_gemm, outside a capture.
Result<SkinnyDevice> prepare_skinny_gemm();

// True if the kernel supports these arguments: has_few_rows() with up to 32 rows.
bool skinny_gemm_takes(const GemmArgs& args);

// Enqueues; never allocates or synchronises. The launch shape depends only on the shapes of `args`.
// Sums have a fixed order: the same for a given number of rows, in and out. Reads w before earlier
// kernels of the stream have ended, so nothing may write w on the stream. GemmEnd::swiglu and geglu
// require:
// no bias, no accumulation, y of x's dtype.
Status launch_skinny_gemm(const GemmArgs& args, const SkinnyDevice& device, cudaStream_t stream,
                          GemmEnd end = GemmEnd::store);

}  // namespace tandem::cuda
