// Rows of a packed weight as plain numbers: for products of many rows, and for embeddings.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/status.h"
#include "base/tensor.h"
#include "gpu/ops.h"

namespace tandem::cuda {

// out[r] = row `first_row` + r of the weight, its columns in their own order, each number computed
// in f32 and rounded once. `out` is [rows, in], f32, f16 or bf16, dense rows. For every form, and
// both layouts. Enqueues; never allocates or synchronises.
Status launch_unpack(const Weight& weight, std::int64_t first_row, const TensorView& out,
                     cudaStream_t stream);

// As launch_embed, from a packed table.
Status launch_packed_embed(const EmbedArgs& args, cudaStream_t stream);

}  // namespace tandem::cuda
