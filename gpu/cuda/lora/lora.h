// The LoRA operation (LoraArgs in gpu/ops.h) on CUDA: one kernel for x A^T and its product with
// B^T, for all modules and adapters. fused.cuh is for few rows per adapter, sgmv.cuh for many,
// halves.cuh for one of the two products; those files have the maths and the grid.
#pragma once

#include <cuda_runtime_api.h>

#include "base/status.h"
#include "gpu/cuda/lora/kernels/plan.h"
#include "gpu/ops.h"

namespace tandem::cuda {

// Enqueues; never allocates or synchronises, needs no scratch, always adds in the same order. The
// launch depends only on num_rows, num_segments, max_rank, max_count, the modules and the shapes,
// so a captured one serves any later segments, rows and table. bf16 and f16 use tensor cores if
// `in`, the outputs' widths and all rows are multiples of 16 bytes; f32 and the rest use a plain
// kernel. Weights, table, rows and segments may be read while the previous kernel of the stream
// still runs, so no kernel may write them (copies and uploads may). `kernel` forces a choice;
// `overlap` false makes the operation start only after the previous one has ended, as live
// segments, and measurements, require.
Status launch_lora(const LoraArgs& args, cudaStream_t stream,
                   LoraKernel kernel = LoraKernel::automatic, bool overlap = true);
// Converts the operation's arguments for the kernels; aborts if a requirement is broken.
LoraParams lora_params(const LoraArgs& args);

}  // namespace tandem::cuda
