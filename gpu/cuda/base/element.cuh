// Elements of the compute dtypes in kernels: conversion to and from float, and 16-byte vectors.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace tandem::cuda {

__device__ __forceinline__ float to_float(float x) {
  return x;
}
__device__ __forceinline__ float to_float(__half x) {
  return __half2float(x);
}
__device__ __forceinline__ float to_float(__nv_bfloat16 x) {
  return __bfloat162float(x);
}

template <typename T>
__device__ __forceinline__ T from_float(float x);
template <>
__device__ __forceinline__ float from_float<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ __half from_float<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

// N elements of T, loaded and stored as one access.
template <typename T, int N>
struct alignas(sizeof(T) * N) Vec {
  static constexpr int kSize = N;
  T element[N];
};
template <typename T>
using Vec16 = Vec<T, static_cast<int>(16 / sizeof(T))>;

}  // namespace tandem::cuda
