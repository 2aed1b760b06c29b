// The numbers of a packed matrix, element by element.
#pragma once

#include <cstdint>
#include <vector>

#include "gpu/weight.h"

namespace tandem::reference {

// Row `row` in the order of columns, in f32 arithmetic. The weight lies in host memory; it may be
// dense.
std::vector<float> row_of(const Weight& weight, std::int64_t row);

}  // namespace tandem::reference
