// Cuts a block of device memory into tensors, one after another.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/tensor.h"

namespace tandem {

// With a null base it only measures.
class Cutter {
 public:
  explicit Cutter(std::byte* base) : base_(base) {}

  std::byte* take(std::size_t bytes) {
    std::byte* const piece = base_ + bytes_;
    // 256 bytes are the largest alignment that cuBLAS or the vector loads of any device need.
    bytes_ += (bytes + 255) / 256 * 256;
    return piece;
  }
  std::byte* take(DType type, std::int64_t elements) {
    return take(static_cast<std::size_t>(elements) * size_of(type));
  }
  TensorView take(DType type, std::int64_t rows, std::int64_t cols) {
    return {take(type, rows * cols), type, {rows, cols}};
  }
  std::size_t bytes() const { return bytes_; }  // of all tensors

 private:
  std::byte* base_;
  std::size_t bytes_ = 0;
};

}  // namespace tandem
