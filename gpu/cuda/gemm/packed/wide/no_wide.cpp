// The kernels of warpgroups in a build without code for sm_90a.
#include "gpu/cuda/gemm/packed/wide/wide_kernels.h"

namespace tandem::cuda {

bool has_wide_kernels() {
  return false;
}
PackedKernel wide_affine4_kernel(DType, int, int) {
  return nullptr;
}
PackedKernel wide_affine8_kernel(DType, int, int) {
  return nullptr;
}
PackedKernel wide_e4m3_kernel(DType, int) {
  return nullptr;
}
PackedKernel wide_codebook_kernel(DType, int) {
  return nullptr;
}

}  // namespace tandem::cuda
