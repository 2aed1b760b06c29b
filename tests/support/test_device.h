// The device that tests run on.
#pragma once

#include <memory>

#include "gpu/device.h"

namespace tandem::test {

// A host device with two threads, or GPU 0 where the variable TANDEM_TEST_DEVICE is cuda; aborts if
// it cannot be made.
std::unique_ptr<Device> make_test_device();

}  // namespace tandem::test
