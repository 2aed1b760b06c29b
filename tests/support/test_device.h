// The device on which tests run.
#pragma once

#include <memory>

#include "gpu/device.h"

namespace tandem::test {

// Returns a host device with two threads or, if TANDEM_TEST_DEVICE is cuda, the GPU with the rank's
// number (modulo the number of GPUs). Aborts if it cannot be made.
std::unique_ptr<Device> make_test_device(int rank = 0);

}  // namespace tandem::test
