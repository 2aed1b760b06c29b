#include "tools/cli/version.h"

#include <fmt/format.h>

#include <ctime>

#include "tandem_version.h"

namespace tandem {
namespace {

std::string compiler() {
#if defined(__clang__)
  return fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return fmt::format("gcc {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

}  // namespace

std::string version_number() {
  return TANDEM_VERSION;
}

std::string build_commit() {
  return TANDEM_COMMIT;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

std::string build_text() {
  return fmt::format("{}, {}", compiler(), TANDEM_BUILD_TYPE);
}

}  // namespace tandem
