// The device under test for tests/gpu/ops in this program.
#include "gpu/host/host_device.h"
#include "tests/gpu/ops/ops_fixture.h"

namespace tandem {

std::unique_ptr<Device> make_test_device(int /*rank*/) {
  HostDeviceOptions options;
  options.num_threads = 3;  // more than the machine may have, because order must not matter
  return std::move(make_host_device(options)).value();
}

}  // namespace tandem
