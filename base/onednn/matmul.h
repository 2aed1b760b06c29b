// oneDNN's matrix product on the calling thread, for both the host device and the CPU workers, so
// that equal inputs give results that are equal to the last bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/dtype.h"

namespace tandem {

// y = x w^T, all dense: x [m, k] and w [n, k] of one dtype (f32 or bf16), y [m, n] f32.
struct MatmulShape {
  DType dtype;
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  bool operator==(const MatmulShape&) const = default;
};

// Scratch of a running product, for use by one thread at a time.
class MatmulScratch {
 public:
  MatmulScratch();
  MatmulScratch(MatmulScratch&&) noexcept;
  MatmulScratch& operator=(MatmulScratch&&) noexcept;
  ~MatmulScratch();

 private:
  friend class MatmulCache;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Caches the compiled primitives of recently used shapes. Thread-safe.
class MatmulCache {
 public:
  MatmulCache();
  ~MatmulCache();
  MatmulCache(const MatmulCache&) = delete;
  MatmulCache& operator=(const MatmulCache&) = delete;

  // Runs only on the calling thread, provided that it has called use_one_thread(). Throws
  // std::exception if oneDNN refuses the shape.
  void run(const MatmulShape& shape, const void* x, const void* w, float* y,
           MatmulScratch& scratch);

  static constexpr std::size_t kMaxEntries = 512;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Makes oneDNN, which is built on OpenMP, use only the calling thread, because its callers split
// the work over their own threads or processes.
void use_one_thread();

// True if bf16 matrix products are much faster than f32 ones: on CPUs with AMX tiles.
bool has_fast_bf16_matmul();

}  // namespace tandem
