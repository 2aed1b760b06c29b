// Lists of ids as the kernel writes them: "0-3,8".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tandem {

// The largest id of a cpu or a node that is read; anything above is a mistake.
inline constexpr int kMaxId = 1 << 20;

// "0-3,8" to ids, rising, each once; and back. Thread-safe.
Result<std::vector<int>> parse_id_list(std::string_view text);
std::string format_id_list(std::vector<int> ids);

// Those that both have, rising, each once. Thread-safe.
std::vector<int> common_ids(std::vector<int> some, std::vector<int> others);

}  // namespace tandem
