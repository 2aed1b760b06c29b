// The order of a matrix's columns in which each group's are consecutive.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/loader/quantised/module_tensors.h"

namespace tandem {

// `groups_of` holds the group of each of `cols` columns (g_idx, I32). Returns the column at each
// place if columns are sorted by group, those of a group in their own order; empty if that is how
// they are. Fails unless all groups have `group` columns, the last one the rest: otherwise no order
// makes groups consecutive at equal distances.
Result<std::vector<std::int32_t>> column_order(std::string_view suffix,
                                               const StoredTensor& groups_of, std::int64_t cols,
                                               std::int64_t group);

}  // namespace tandem
