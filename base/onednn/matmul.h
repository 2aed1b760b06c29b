// oneDNN's matrix product on the calling thread, for the host device and for CPU workers alike:
// what both compute from the same numbers is the same to the last bit.
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

// What a product needs while it runs; one thread at a time uses it.
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

// Keeps the compiled primitives of the shapes used last. Thread-safe.
class MatmulCache {
 public:
  MatmulCache();
  ~MatmulCache();
  MatmulCache(const MatmulCache&) = delete;
  MatmulCache& operator=(const MatmulCache&) = delete;

  // Runs on the calling thread alone, provided that it has called use_one_thread(). Throws
  // std::exception when oneDNN refuses the shape.
  void run(const MatmulShape& shape, const void* x, const void* w, float* y,
           MatmulScratch& scratch);

  static constexpr std::size_t kMaxEntries = 512;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Tells oneDNN, which is built on OpenMP, to stay on the calling thread: who calls it splits the
// work over threads or processes of its own.
void use_one_thread();

// True where bf16 matrix products outrun f32 ones by far: on CPUs with AMX tiles.
bool has_fast_bf16_matmul();

}  // namespace tandem
