// Host memory for the arrays of a packed matrix.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/loader/quantised/packed_form.h"
#include "engine/loader/quantised/packed_rows.h"

namespace tandem::test {

// Zero bytes, to be filled. Arrays have their exact sizes, so that a sanitizer sees what runs over.
class PackedMemory {
 public:
  PackedMemory(const WeightForm& form, std::int64_t rows, std::int64_t cols) {
    const PackedSizes sizes = packed_row_bytes(form, cols);
    PackedPointers pointers = {};
    for (std::size_t i = 0; i < kPackedArrays; ++i) {
      arrays_[i].resize(static_cast<std::size_t>(sizes[i] * rows));
      if (sizes[i] > 0) pointers[i] = arrays_[i].data();
    }
    weight_.form = form;
    weight_.packed = arrays_at(pointers);
    weight_.packed_rows = rows;
    weight_.packed_cols = cols;
  }
  // `packed` must outlive it.
  PackedMemory(const PackedForm& packed, std::int64_t rows, std::int64_t cols)
      : PackedMemory(packed.form, rows, cols) {
    if (!packed.table.empty()) weight_.table = packed.table.data();
    if (!packed.order.empty()) weight_.order = packed.order.data();
  }
  PackedMemory(const PackedMemory&) = delete;
  PackedMemory& operator=(const PackedMemory&) = delete;

  const Weight& weight() const { return weight_; }
  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const std::vector<std::byte>& array : arrays_) sum += array.size();
    return sum;
  }

 private:
  std::array<std::vector<std::byte>, kPackedArrays> arrays_;
  Weight weight_;
};

}  // namespace tandem::test
