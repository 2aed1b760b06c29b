// A text in a text, in time that grows with their sum, never with their product: the standard
// library's search takes hours for 8 MiB of a letter in 16 MiB of the same.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "engine/tokenizer/jinja/values/budget.h"

namespace tandem::jinja {

// Byte offsets; npos if there is none.
std::size_t find_first(std::string_view text, std::string_view part);
std::size_t find_last(std::string_view text, std::string_view part);

using Offsets = std::vector<std::size_t, Metered<std::size_t>>;
// At most `max` (negative: all) places that do not overlap, taken from one end, told in the order
// they were taken. Requires a part that is not empty.
Offsets find_all(std::string_view text, std::string_view part, std::int64_t max,
                 bool from_right = false);

}  // namespace tandem::jinja
