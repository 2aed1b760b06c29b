// Descriptions of matrices for the copy engine (sm_90 and later), which copies boxes of them into
// shared memory.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "base/status.h"
#include "base/tensor.h"

namespace tandem::cuda {

using EncodeTensorMap = decltype(&cuTensorMapEncodeTiled);
// The driver's, null where it has none.
Result<EncodeTensorMap> find_tensor_map_encoder();

// Columns that are swizzled together, 128 bytes of a row of 16-bit elements.
constexpr int kTensorSlab = 64;

// What one copy brings of a matrix. `row_after_row`: as [rows, slabs, 64], the slabs of a row
// together; else as [slabs, rows, 64], a slab's rows together. A copy names its begin in the same
// order, innermost first.
struct TensorBox {
  int rows = 0;
  int slabs = 0;
  bool row_after_row = false;
};

// Of a matrix [rows, in] of f16 or bf16, in % 64 == 0, 16-byte aligned rows. What a box has beyond
// the matrix is zeros.
Result<CUtensorMap> tensor_map(EncodeTensorMap encode, const TensorView& view,
                               const TensorBox& box);

// Lets a kernel have as much shared memory as a block may, and has its multiprocessors divide L1
// for that: else the driver divides it for one block, and none of the next kernel's finds room.
Status use_all_shared_memory(const void* kernel, int shared_bytes);

}  // namespace tandem::cuda
