// Descriptions of a packed weight and of x for the copy engine.
#pragma once

#include "base/status.h"
#include "gpu/cuda/base/tensor_map.h"
#include "gpu/cuda/gemm/packed/kernel/packed_plan.h"
#include "gpu/weight.h"

namespace tandem::cuda {

// The tensors that the copy engine reads: codes and x in lines of 128 bytes, [lines, rows, 128];
// scales and zeros [groups, rows]. Those that the form does not have stay undefined.
struct PackedMaps {
  CUtensorMap w, x, scales, zeros;
};

// For an arranged weight and the boxes of the plan.
Result<PackedMaps> packed_maps(EncodeTensorMap encode, const Weight& weight, const TensorView& x,
                               const PackedPlan& plan);

}  // namespace tandem::cuda
