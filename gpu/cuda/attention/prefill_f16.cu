// FlashInfer's prefill kernel for f16: one file per dtype, so that they compile in parallel.
#include "gpu/cuda/attention/instances.h"
#include "gpu/cuda/attention/prefill.cuh"

namespace tandem::cuda {

Status launch_prefill_f16(const PrefillArgs& args, cudaStream_t stream) {
  switch (args.attention.q.cols()) {
    case 64:
      return launch_prefill<__half, 64>(args, stream);
    case 128:
      return launch_prefill<__half, 128>(args, stream);
    default:
      return launch_prefill<__half, 256>(args, stream);
  }
}

}  // namespace tandem::cuda
