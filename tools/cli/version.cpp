#include "tools/cli/version.h"

#include <dnnl.h>
#include <fmt/format.h>

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

std::string version_text() {
  const dnnl_version_t* dnnl = dnnl_version();
  return fmt::format("tandem {} ({})\ncompiler {}, {}\noneDNN {}.{}.{}\nCUDA {}\n", TANDEM_VERSION,
                     TANDEM_COMMIT, compiler(), TANDEM_BUILD_TYPE, dnnl->major, dnnl->minor,
                     dnnl->patch, describe_cuda());
}

}  // namespace tandem
