// Columns of packed matrices, for models that are cut or spread over several devices.
#pragma once

#include <cstdint>

#include "engine/model/spec/spread.h"
#include "gpu/weight.h"

namespace tandem {

// True if packed rows of `cols` columns can be made of these runs of packed rows of `stored`
// columns, and zeros between them: no run begins or ends within a group, a byte or a number of the
// second level, but for a row's last ones, and zero bytes stand for zeros.
bool can_cut(const WeightForm& form, std::int64_t stored, const SpreadRuns& runs,
             std::int64_t cols);

// True if zero bytes stand for rows of zeros.
bool has_zero_rows(const WeightForm& form);

// Copies the runs, which can be cut, of each row.
void copy_columns(const WeightForm& form, const SpreadRuns& runs, std::int64_t rows,
                  const PackedArrays& source, std::int64_t stored, const PackedArrays& target,
                  std::int64_t cols);

}  // namespace tandem
