#pragma once

#include <string_view>

namespace tandem {

// Of a Content-Type: application/json, in any case and with any parameters.
bool is_json_type(std::string_view content_type);

}  // namespace tandem
