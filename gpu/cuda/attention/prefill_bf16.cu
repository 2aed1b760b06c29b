// FlashInfer's prefill kernel for bf16: one file per dtype, so that they compile in parallel.
#include "gpu/cuda/attention/instances.h"
#include "gpu/cuda/attention/prefill.cuh"

namespace tandem::cuda {

Status launch_prefill_bf16(const PrefillArgs& args, cudaStream_t stream) {
  switch (args.attention.q.cols()) {
    case 64:
      return launch_prefill<__nv_bfloat16, 64>(args, stream);
    case 128:
      return launch_prefill<__nv_bfloat16, 128>(args, stream);
    default:
      return launch_prefill<__nv_bfloat16, 256>(args, stream);
  }
}

}  // namespace tandem::cuda
