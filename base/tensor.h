// TensorView: dtype, pointer, dims and strides of memory that it does not own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "base/check.h"
#include "base/dtype.h"

namespace tandem {

// Up to four dimensions, strides in elements, the last one always 1. Trivially copyable. As with a
// pointer, const does not apply to the elements, so operations document which operands they write.
struct TensorView {
  static constexpr int kMaxRank = 4;

  void* data = nullptr;
  DType dtype = DType::f32;
  int rank = 0;
  std::array<std::int64_t, kMaxRank> dim{};
  std::array<std::int64_t, kMaxRank> stride{};

  TensorView() = default;
  // Dense, row-major.
  TensorView(void* pointer, DType type, std::initializer_list<std::int64_t> dims);

  std::int64_t rows() const { return dim[0]; }
  std::int64_t cols() const { return dim[rank - 1]; }
  std::int64_t num_elements() const;
  bool is_dense() const;

  // Elements [begin, begin + count) of the first dimension.
  TensorView slice_rows(std::int64_t begin, std::int64_t count) const;
  // Elements [begin, begin + count) of the last dimension.
  TensorView slice_cols(std::int64_t begin, std::int64_t count) const;
  // Views [rows, heads * d] as [rows, heads, d]; cols() must be a multiple of `heads`.
  TensorView split_cols(std::int64_t heads) const;

  template <typename T>
  T* ptr() const {
    TANDEM_CHECK(dtype_of<T> == dtype, "view holds {}", to_string(dtype));
    return static_cast<T*>(data);
  }
  std::byte* row_bytes(std::int64_t row) const {
    return static_cast<std::byte*>(data) +
           row * stride[0] * static_cast<std::int64_t>(size_of(dtype));
  }
};

// "bf16[16, 4096]"
std::string to_string(const TensorView& view);

}  // namespace tandem
