// For tests in which a race is meant.
#pragma once

#include <gtest/gtest.h>

// Of a layer whose reading was given up the load stream copies what there is: a step may have to
// end. Nobody keeps what comes of it, but ThreadSanitizer sees bytes that nobody has released.
#if defined(__SANITIZE_THREAD__)
#define TANDEM_SKIP_UNDER_TSAN() \
  GTEST_SKIP() << "what was read of a layer is copied without order when it is given up"
#else
#define TANDEM_SKIP_UNDER_TSAN() static_cast<void>(0)
#endif
