#include "tests/support/test_device.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/check.h"
#include "gpu/cuda/cuda_device.h"
#include "gpu/host/host_device.h"

namespace tandem::test {

std::unique_ptr<Device> make_test_device(int rank) {
  const char* const wanted = std::getenv("TANDEM_TEST_DEVICE");
  if (wanted != nullptr && std::string_view(wanted) == "cuda") {
    CudaDeviceOptions options;
    options.gpu = rank % std::max(1, static_cast<int>(list_cuda_gpus().size()));
    auto gpu = make_cuda_device(options);
    TANDEM_CHECK(gpu.ok(), "{}", gpu.status().message());
    return std::move(gpu).value();
  }
  TANDEM_CHECK(wanted == nullptr || std::string_view(wanted) == "host",
               "TANDEM_TEST_DEVICE is {}: it may be host or cuda", wanted);
  HostDeviceOptions options;
  options.num_threads = 2;
  auto device = make_host_device(options);
  TANDEM_CHECK(device.ok(), "{}", device.status().message());
  return std::move(device).value();
}

}  // namespace tandem::test
