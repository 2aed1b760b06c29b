// The LoRA operation (LoraArgs in gpu/ops.h) on CUDA: one kernel for x A^T and its product with
// B^T, for all modules and adapters of the operation: fused.cuh for few rows of an adapter,
// sgmv.cuh for many, halves.cuh for one of the two products; they have the maths and the grid.
#pragma once

#include <cuda_runtime_api.h>

#include "base/status.h"
#include "gpu/cuda/lora/kernels/plan.h"
#include "gpu/ops.h"

namespace tandem::cuda {

// Enqueues; never allocates or synchronises, needs no scratch, adds in the same order every time.
// The launch depends on num_rows, num_segments, max_rank, max_count, the modules and the shapes
// alone, so a captured one serves any segments, rows and table later. bf16 and f16 go through
// tensor cores when `in`, the outputs' widths and all rows are multiples of 16 bytes; f32 and the
// rest through a plain kernel. Weights, table, rows and segments may be read while the kernel
// before this one in the stream still runs: no kernel may write them (copies and uploads may).
// `kernel` forces a choice, and `overlap` false keeps the operation from starting before the one
// before it has ended: for live segments, and for measurements.
Status launch_lora(const LoraArgs& args, cudaStream_t stream,
                   LoraKernel kernel = LoraKernel::automatic, bool overlap = true);
// The operation's arguments as the kernels take them; a broken requirement aborts.
LoraParams lora_params(const LoraArgs& args);

}  // namespace tandem::cuda
