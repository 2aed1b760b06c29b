// The arrays of a packed matrix as a list, for what treats all of them alike.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "gpu/weight.h"

namespace tandem {

// In the order of PackedArrays' members.
inline constexpr std::size_t kPackedArrays = 7;
using PackedPointers = std::array<std::byte*, kPackedArrays>;
using PackedSizes = std::array<std::int64_t, kPackedArrays>;

// Bytes of a row of each array; 0: the form does not have it.
PackedSizes packed_row_bytes(const WeightForm& form, std::int64_t cols);

PackedPointers pointers_of(const PackedArrays& arrays);
PackedArrays arrays_at(const PackedPointers& pointers);

// The arrays from this row on.
PackedArrays rows_from(const PackedArrays& arrays, const WeightForm& form, std::int64_t cols,
                       std::int64_t row);

}  // namespace tandem
