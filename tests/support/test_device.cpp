#include "tests/support/test_device.h"

#include "engine/base/check.h"
#include "gpu/host/host_device.h"

namespace tandem::test {

std::unique_ptr<Device> make_test_device() {
  HostDeviceOptions options;
  options.num_threads = 2;
  auto device = make_host_device(options);
  TANDEM_CHECK(device.ok(), "{}", device.status().message());
  return std::move(device).value();
}

}  // namespace tandem::test
