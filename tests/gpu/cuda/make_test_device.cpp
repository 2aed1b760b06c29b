// The device under test for tests/gpu/ops in this program. With TANDEM_TEST_PEERS_APART=1 in the
// environment, and two GPUs, ranks meet as on GPUs that cannot map each other's memory.
#include <algorithm>
#include <cstdlib>

#include "gpu/cuda/cuda_device.h"
#include "tests/gpu/ops/ops_fixture.h"

namespace tandem {

std::unique_ptr<Device> make_test_device(int rank) {
  CudaDeviceOptions options;
  options.gpu = rank % std::max(1, static_cast<int>(list_cuda_gpus().size()));
  options.group.peers_apart = std::getenv("TANDEM_TEST_PEERS_APART") != nullptr;
  return std::move(make_cuda_device(options)).value();
}

}  // namespace tandem
