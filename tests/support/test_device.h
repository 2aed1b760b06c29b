// The device that tests run on.
#pragma once

#include <memory>

#include "gpu/device.h"

namespace tandem::test {

// A host device with two threads or, where the variable TANDEM_TEST_DEVICE is cuda, a GPU: that of
// the rank's number, counted round where there are fewer. Aborts if it cannot be made.
std::unique_ptr<Device> make_test_device(int rank = 0);

}  // namespace tandem::test
