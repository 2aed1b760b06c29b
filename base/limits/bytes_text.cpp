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

std::string size_text(std::uint64_t bytes) {
  constexpr std::uint64_t kUnit = 1024;
  if (bytes == 0 || bytes % kUnit != 0) return bytes_text(static_cast<double>(bytes));
  std::uint64_t count = bytes / kUnit;
  const char* unit = "KiB";
  for (const char* larger : {"MiB", "GiB", "TiB"}) {
    if (count % kUnit != 0) break;
    count /= kUnit;
    unit = larger;
  }
  return fmt::format("{} {}", count, unit);
}

}  // namespace tandem
