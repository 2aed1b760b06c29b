#include "gpu/cuda/gemm/packed/kernel/packed_maps.h"

namespace tandem::cuda {
namespace {

// An array [groups, rows] of elements of 1, 2 or 4 bytes.
Result<CUtensorMap> plane_map(EncodeTensorMap encode, void* data, std::size_t element,
                              const Weight& weight, const PackedPlan& plan) {
  const auto rows = static_cast<cuuint64_t>(weight.rows());
  const cuuint64_t dims[] = {rows, static_cast<cuuint64_t>(weight.form.groups(weight.cols()))};
  const cuuint64_t strides[] = {rows * element};
  const cuuint32_t boxes[] = {static_cast<cuuint32_t>(plan.scale_rows),
                              static_cast<cuuint32_t>(plan.scale_groups)};
  const cuuint32_t steps[] = {1, 1};
  CUtensorMap map;
  const CUresult code = encode(&map,
                               element == 1   ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                               : element == 2 ? CU_TENSOR_MAP_DATA_TYPE_UINT16
                                              : CU_TENSOR_MAP_DATA_TYPE_UINT32,
                               2, data, dims, strides, boxes, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                               CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (code != CUDA_SUCCESS) {
    return error(StatusCode::internal,
                 "CUDA: describing scales of [{}, {}] to the copy engine failed: code {}",
                 weight.rows(), weight.cols(), static_cast<int>(code));
  }
  return map;
}

}  // namespace

Result<PackedMaps> packed_maps(EncodeTensorMap encode, const Weight& weight, const TensorView& x,
                               const PackedPlan& plan) {
  const WeightForm& form = weight.form;
  PackedMaps maps{};
  // The copy engine moves 16-bit elements, whatever they are.
  const TensorView codes(weight.packed.low, DType::bf16,
                         {weight.rows(), form.low_bytes(weight.cols()) / 2});
  TANDEM_ASSIGN(maps.w, tensor_map(encode, codes, {plan.group_rows, plan.slabs}));
  TANDEM_ASSIGN(maps.x, tensor_map(encode, x, {plan.x_rows, plan.chunk() / kTensorSlab}));
  if (plan.scale_groups == 0) return maps;
  TANDEM_ASSIGN(maps.scales,
                plane_map(encode, weight.packed.scales, size_of(form.scales.dtype), weight, plan));
  if (form.has_zeros) {
    TANDEM_ASSIGN(maps.zeros, plane_map(encode, weight.packed.zeros, 1, weight, plan));
  }
  return maps;
}

}  // namespace tandem::cuda
