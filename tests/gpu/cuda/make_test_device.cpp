// The device that tests/gpu/ops judges in this program.
#include "gpu/cuda/cuda_device.h"
#include "tests/gpu/ops/ops_fixture.h"

namespace tandem {

std::unique_ptr<Device> make_test_device() {
  return std::move(make_cuda_device({})).value();
}

}  // namespace tandem
