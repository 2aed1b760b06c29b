#include "base/http/rest/media_type.h"

#include <algorithm>

namespace tandem {

bool is_json_type(std::string_view content_type) {
  constexpr std::string_view kJsonType = "application/json";
  std::string_view type = content_type.substr(0, content_type.find(';'));
  while (!type.empty() && type.back() == ' ') type.remove_suffix(1);
  return std::equal(type.begin(), type.end(), kJsonType.begin(), kJsonType.end(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; });
}

}  // namespace tandem
