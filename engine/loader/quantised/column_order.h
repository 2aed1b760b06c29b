// The order of a matrix's columns in which each group's are consecutive.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/loader/quantised/module_scheme.h"
#include "engine/loader/quantised/module_tensors.h"

namespace tandem {

// The tensor `suffix` (g_idx, I32) holds the group of each of `cols` columns. Returns the column at
// each place if columns are sorted by group, those of a group in their own order. Empty if that is
// how they are, as it is without the tensor, or with -1 throughout, unless the scheme needs it.
// Fails unless all groups have `group` columns, the last one the rest: otherwise no order makes
// groups consecutive at equal distances.
Result<std::vector<std::int32_t>> column_order(const ModuleScheme& scheme,
                                               const ModuleTensors& tensors,
                                               std::string_view suffix, std::int64_t cols,
                                               std::int64_t group);

}  // namespace tandem
