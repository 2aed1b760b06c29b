// oneDNN's matrix product, one thread per call; the only file pair that sees oneDNN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/base/dtype.h"

namespace tandem::host {

class Scratch;

// y = x w^T, all dense: x [m, k] and w [n, k] of one dtype (f32 or bf16), y [m, n] f32.
struct MatmulShape {
  DType dtype;
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  bool operator==(const MatmulShape&) const = default;
};

// Keeps the compiled primitives of the shapes used last. Thread-safe.
class MatmulCache {
 public:
  MatmulCache();
  ~MatmulCache();
  MatmulCache(const MatmulCache&) = delete;
  MatmulCache& operator=(const MatmulCache&) = delete;

  // Runs on the calling thread alone, provided that it is prepared (ThreadPool::prepare_caller).
  // `scratch` is the caller's. Throws std::exception when oneDNN refuses the shape.
  void run(const MatmulShape& shape, const void* x, const void* w, float* y, Scratch& scratch);

  static constexpr std::size_t kMaxEntries = 512;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// True where bf16 matrix products outrun f32 ones by far: on CPUs with AMX tiles.
bool has_fast_bf16_matmul();

}  // namespace tandem::host
