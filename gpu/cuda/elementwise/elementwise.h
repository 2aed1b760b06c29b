// The row-by-row operations of gpu/ops.h on CUDA. All are bound by memory, and in a decode step (1
// to 64 rows) by the launch itself: each is one kernel, launched with overlap, that reads and
// writes 16 bytes at a time where addresses, strides and widths allow (every real model), and one
// element at a time where not.
//
// Every launcher enqueues on `stream` and neither allocates nor synchronises; launch shapes depend
// on the arguments' dimensions alone. Contents that no sound caller passes (a token id or a
// position outside its table) stop the kernel with a trap: the context is lost, and the stream
// reports it, rather than text made of somebody else's rows.
#pragma once

#include <cuda_runtime_api.h>

#include "base/status.h"
#include "gpu/ops.h"

namespace tandem::cuda {

Status launch_resolve_tokens(const ResolveTokensArgs& args, cudaStream_t stream);
Status launch_embed(const EmbedArgs& args, cudaStream_t stream);
// x and out each of the weight's dtype or f32.
Status launch_rms_norm(const RmsNormArgs& args, cudaStream_t stream);
Status launch_rope_append(const RopeAppendArgs& args, cudaStream_t stream);
Status launch_swiglu(const SwigluArgs& args, cudaStream_t stream);
Status launch_gather_rows(const GatherRowsArgs& args, cudaStream_t stream);

// Ok if this program holds code that the current GPU, of compute capability `major`, can run and
// was made for. From 9 on hosts launch clusters, and kernels before those that they follow end, of
// which code for older GPUs, translated by the driver, knows nothing: its results would be wrong.
Status kernels_fit_gpu(int major);

}  // namespace tandem::cuda
