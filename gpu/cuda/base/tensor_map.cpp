#include "gpu/cuda/base/tensor_map.h"

#include "gpu/cuda/base/cuda_status.h"

namespace tandem::cuda {

Result<EncodeTensorMap> find_tensor_map_encoder() {
  void* encode = nullptr;
  cudaDriverEntryPointQueryResult found{};
  TANDEM_TRY(cuda_status(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000,
                                                          cudaEnableDefault, &found),
                         "finding cuTensorMapEncodeTiled"));
  return found == cudaDriverEntryPointSuccess ? reinterpret_cast<EncodeTensorMap>(encode) : nullptr;
}

Result<CUtensorMap> tensor_map(EncodeTensorMap encode, const TensorView& view,
                               const TensorBox& box) {
  constexpr cuuint64_t kSlabBytes = 2 * kTensorSlab;
  const std::int64_t row = view.rows() > 1 ? view.stride[0] : view.cols();
  const auto rows = static_cast<cuuint64_t>(view.rows());
  const auto row_bytes = static_cast<cuuint64_t>(row) * 2;
  const auto slabs = static_cast<cuuint64_t>(view.cols() / kTensorSlab);
  const auto box_rows = static_cast<cuuint32_t>(box.rows);
  const auto box_slabs = static_cast<cuuint32_t>(box.slabs);
  const bool rows_last = box.row_after_row;
  const cuuint64_t dims[] = {kTensorSlab, rows_last ? slabs : rows, rows_last ? rows : slabs};
  const cuuint64_t strides[] = {rows_last ? kSlabBytes : row_bytes,
                                rows_last ? row_bytes : kSlabBytes};
  const cuuint32_t boxes[] = {kTensorSlab, rows_last ? box_slabs : box_rows,
                              rows_last ? box_rows : box_slabs};
  const cuuint32_t steps[] = {1, 1, 1};
  CUtensorMap map;
  const CUresult code = encode(
      &map,
      view.dtype == DType::f16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
      3, view.data, dims, strides, boxes, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (code != CUDA_SUCCESS) {
    return error(StatusCode::internal, "CUDA: describing {} to the copy engine failed: code {}",
                 to_string(view), static_cast<int>(code));
  }
  return map;
}

Status use_all_shared_memory(const void* kernel, int shared_bytes) {
  TANDEM_TRY(cuda_status(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes),
      "giving a kernel shared memory"));
  return cuda_status(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                          cudaSharedmemCarveoutMaxShared),
                     "giving a kernel shared memory");
}

}  // namespace tandem::cuda
