// Reductions over a block, equal on every run: the tree depends only on the block size.
#pragma once

#include <cstdint>

namespace tandem::cuda {

template <typename T>
__device__ __forceinline__ T shuffle_down(T value, int distance) {
  static_assert(sizeof(T) % 4 == 0);
  constexpr int kWords = sizeof(T) / 4;
  union {
    T whole;
    unsigned word[kWords];
  } from, to;
  from.whole = value;
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    to.word[i] = __shfl_down_sync(0xFFFFFFFFU, from.word[i], distance);
  }
  return to.whole;
}

// Returns combine(...) over the values of all threads, to all of them. `combine` is associative and
// commutative. Every thread of the block calls it.
template <int kThreads, typename T, typename Combine>
__device__ T block_reduce(T value, Combine combine) {
  constexpr int kWarps = kThreads / 32;
  __shared__ alignas(alignof(T)) unsigned char storage[(kWarps + 1) * sizeof(T)];
  T* shared = reinterpret_cast<T*>(storage);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    const T other = shuffle_down(value, distance);
    value = combine(value, other);
  }
  __syncthreads();  // earlier readers of the storage are done
  if (lane == 0) shared[warp] = value;
  __syncthreads();
  if (warp == 0) {
    value = shared[lane < kWarps ? lane : 0];
    // Lanes past the last warp hold the first value; it only reaches lanes that are never read.
#pragma unroll
    for (int distance = kWarps / 2; distance > 0; distance /= 2) {
      const T other = shuffle_down(value, distance);
      value = combine(value, other);
    }
    if (lane == 0) shared[kWarps] = value;
  }
  __syncthreads();
  return shared[kWarps];
}

struct Larger {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};

struct Sum {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

}  // namespace tandem::cuda
