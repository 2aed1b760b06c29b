// Lists of ids in the kernel's format: "0-3,8".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tandem {

// The largest accepted id of a CPU or a node; anything above is an error.
inline constexpr int kMaxId = 1 << 20;

// Converts "0-3,8" to ascending, unique ids, and back. Thread-safe.
Result<std::vector<int>> parse_id_list(std::string_view text);
std::string format_id_list(std::vector<int> ids);

// The ids that are in both lists, ascending and unique. Thread-safe.
std::vector<int> common_ids(std::vector<int> some, std::vector<int> others);

}  // namespace tandem
