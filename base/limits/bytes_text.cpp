#include "base/limits/bytes_text.h"

#include <fmt/format.h>

namespace tandem {

std::string bytes_text(double bytes) {
  if (bytes < 999.5) return fmt::format("{:.0f} B", bytes);
  for (const char* unit : {"kB", "MB", "GB"}) {
    bytes /= 1000;
    if (bytes < 999.5) return fmt::format("{:.1f} {}", bytes, unit);
  }
  return fmt::format("{:.1f} TB", bytes / 1000);
}

}  // namespace tandem
