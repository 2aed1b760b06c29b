// Quantised matrices of random numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "engine/loader/quantised/quantised_matrix.h"

namespace tandem {

enum class DummyFormat : std::uint8_t {
  bf16,  // not quantised: numbers of the type to compute in
  fp8,   // E4M3, a scale for each row
  w8,    // affine, 8 bits, groups of 128
  w4,    // affine, 4 bits, groups of 128
  nf4,   // codebook of normal quantiles, groups of 64
};
std::optional<DummyFormat> parse_dummy_format(std::string_view text);

// Rows [first, first + count) of a matrix of `cols` columns, in any format but bf16. They depend on
// the key and the rows alone, and have the variance 1 / cols. Thread-safe.
QuantisedMatrix dummy_rows(DummyFormat format, std::uint64_t key, std::int64_t first,
                           std::int64_t count, std::int64_t cols);

}  // namespace tandem
