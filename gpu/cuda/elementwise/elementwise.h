// The row-by-row operations of gpu/ops.h on CUDA. All are bound by memory, and in a decode step (1
// to 64 rows) by the launch itself. Each is one kernel, launched with overlap, that accesses 16
// bytes at a time if addresses, strides and widths allow it (as in every real model), and single
// elements otherwise.
//
// Every launcher enqueues on `stream` and neither allocates nor synchronises; launch shapes depend
// only on the dimensions of the arguments. Contents that no correct caller passes (a token id or a
// position outside its table) stop the kernel with a trap. That loses the context, and the stream
// reports it, which is better than generating text from another request's rows.
#pragma once

#include <cuda_runtime_api.h>

#include "base/status.h"
#include "gpu/ops.h"

namespace tandem::cuda {

Status launch_resolve_tokens(const ResolveTokensArgs& args, cudaStream_t stream);
Status launch_embed(const EmbedArgs& args, cudaStream_t stream);
// x and out may each have the compute dtype or f32.
Status launch_rms_norm(const RmsNormArgs& args, cudaStream_t stream);
// The same with weights of adapters, which launch_rms_norm() calls.
Status launch_own_norm(const RmsNormArgs& args, cudaStream_t stream);
Status launch_sum_squares(const SumSquaresArgs& args, cudaStream_t stream);
Status launch_add_norm(const AddNormArgs& args, cudaStream_t stream);
Status launch_rotary_angles(const RotaryAnglesArgs& args, cudaStream_t stream);
Status launch_rope_append(const RopeAppendArgs& args, cudaStream_t stream);
Status launch_swiglu(const SwigluArgs& args, cudaStream_t stream);
Status launch_scale_logits(const ScaleLogitsArgs& args, cudaStream_t stream);
Status launch_gather_rows(const GatherRowsArgs& args, cudaStream_t stream);

// Ok if this program holds code made for the current GPU, of compute capability `major`. From 9 on,
// hosts launch clusters, and kernels that start before their predecessors end; code for older GPUs,
// translated by the driver, ignores both, so its results would be wrong.
Status kernels_fit_gpu(int major);

}  // namespace tandem::cuda
