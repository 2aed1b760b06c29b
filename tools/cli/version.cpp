#include "tools/cli/version.h"

#include <dnnl.h>
#include <fmt/format.h>

#include <ctime>

#include "gpu/cuda/cuda_device.h"
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

std::string version_text() {
  const dnnl_version_t* dnnl = dnnl_version();
  return fmt::format("tandem {} ({})\ncompiler {}, {}\noneDNN {}.{}.{}\nCUDA {}\n", TANDEM_VERSION,
                     TANDEM_COMMIT, compiler(), TANDEM_BUILD_TYPE, dnnl->major, dnnl->minor,
                     dnnl->patch, describe_cuda());
}

}  // namespace tandem
