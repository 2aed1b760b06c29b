// The device that tests/gpu/ops judges in this program.
#include <algorithm>

#include "gpu/cuda/cuda_device.h"
#include "tests/gpu/ops/ops_fixture.h"

namespace tandem {

std::unique_ptr<Device> make_test_device(int rank) {
  CudaDeviceOptions options;
  options.gpu = rank % std::max(1, static_cast<int>(list_cuda_gpus().size()));
  return std::move(make_cuda_device(options)).value();
}

}  // namespace tandem
