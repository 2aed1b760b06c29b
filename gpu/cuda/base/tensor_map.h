// Descriptions of matrices for the copy engine (sm_90 and later), which copies boxes of them into
// shared memory.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "base/status.h"
#include "base/tensor.h"

namespace tandem::cuda {

using EncodeTensorMap = decltype(&cuTensorMapEncodeTiled);
// The driver's encoder; null if the driver has none.
Result<EncodeTensorMap> find_tensor_map_encoder();

// The number of columns that are swizzled together: 128 bytes of a row of 16-bit elements.
constexpr int kTensorSlab = 64;

// The part of a matrix that one copy transfers. With `row_after_row` it arrives as
// [rows, slabs, 64], all slabs of a row together; otherwise as [slabs, rows, 64], all rows of a
// slab together. A copy gives its starting coordinates in the same order, innermost first.
struct TensorBox {
  int rows = 0;
  int slabs = 0;
  bool row_after_row = false;
};

// Describes a matrix [rows, in] of f16 or bf16, in % 64 == 0, with 16-byte aligned rows. The parts
// of a box outside the matrix become zeros.
Result<CUtensorMap> tensor_map(EncodeTensorMap encode, const TensorView& view,
                               const TensorBox& box);

// Lets a kernel use all the shared memory a block may have, and sizes the L1 split for that. By
// default the driver sizes it for one block, so that the next kernel's blocks find no room.
Status use_all_shared_memory(const void* kernel, int shared_bytes);

}  // namespace tandem::cuda
