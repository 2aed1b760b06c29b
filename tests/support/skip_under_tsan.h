// Skips tests that contain an intended race.
#pragma once

#include <gtest/gtest.h>

// If reading a layer was given up, the load stream still copies its bytes, so that a waiting step
// can end. The result is dropped, but ThreadSanitizer sees bytes that were not released.
#if defined(__SANITIZE_THREAD__)
#define TANDEM_SKIP_UNDER_TSAN() \
  GTEST_SKIP() << "what was read of a layer is copied without order when it is given up"
#else
#define TANDEM_SKIP_UNDER_TSAN() static_cast<void>(0)
#endif
