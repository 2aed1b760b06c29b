// Converts a runtime dtype to a template argument.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/dtype.h"

namespace tandem::cuda {

// body(std::type_identity<T>) with T of float, __half or __nv_bfloat16.
template <typename Body>
decltype(auto) dispatch_dtype(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::f32:
      return std::forward<Body>(body)(std::type_identity<float>{});
    case DType::f16:
      return std::forward<Body>(body)(std::type_identity<__half>{});
    default:
      TANDEM_CHECK(dtype == DType::bf16, "dtype {}", to_string(dtype));
      return std::forward<Body>(body)(std::type_identity<__nv_bfloat16>{});
  }
}

}  // namespace tandem::cuda
