// Quantised matrices in the forms that devices compute with (gpu/weight_form.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/loader/quantised/quantised_matrix.h"
#include "gpu/weight.h"

namespace tandem {

// The form of a matrix, and what all its rows share besides.
struct PackedForm {
  WeightForm form = {};
  std::vector<float> table = {};         // [256] if form.scales has codes of a table
  std::vector<std::int32_t> order = {};  // [cols], the column at each place; empty: in order
  friend bool operator==(const PackedForm&, const PackedForm&) = default;
};

// Returns nothing if devices have no such form, or one that is no use: blocks of codes that run
// across rows; groups of neither 16 columns, nor a multiple of 32, nor the whole row, which
// products would read element by element; as many bytes as 16-bit numbers take. The matrix may be
// without rows (PackedMatrix::without_rows).
std::optional<PackedForm> packed_form(const QuantisedMatrix& matrix);

// Writes the rows of a matrix that has a form to arrays in host memory, whose first row is the
// matrix's. Values are kept to the bit: only scales that several rows share are repeated.
// Thread-safe.
void pack(const QuantisedMatrix& matrix, const PackedArrays& target);

}  // namespace tandem
