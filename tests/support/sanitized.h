// Tells whether the code under test is built with a sanitizer. The test's own source may be built
// without it (tandem_test in cmake/TandemTargets.cmake), so the preprocessor cannot tell; a linked
// sanitizer runtime can.
#pragma once

extern "C" {
void __asan_init() __attribute__((weak));  // NOLINT: names of the runtimes
void __tsan_init() __attribute__((weak));  // NOLINT
}

namespace tandem {

inline bool thread_sanitized() {
  return __tsan_init != nullptr;
}
inline bool sanitized() {
  return __asan_init != nullptr || thread_sanitized();
}

}  // namespace tandem
