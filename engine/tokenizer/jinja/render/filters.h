// The tables of filters, for the filters' source files only.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "engine/tokenizer/jinja/syntax/ast.h"

namespace tandem::jinja {

const std::vector<std::pair<std::string_view, FilterFunction>>& text_filters();
const std::vector<std::pair<std::string_view, FilterFunction>>& sequence_filters();

}  // namespace tandem::jinja
