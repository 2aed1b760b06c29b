// The answer of a build with code for sm_90a.
#include "gpu/cuda/gemm/packed/wide/wide_kernels.h"

namespace tandem::cuda {

bool has_wide_kernels() {
  return true;
}

}  // namespace tandem::cuda
