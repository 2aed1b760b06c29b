// Whether the code under test carries a sanitizer. A test's own lines may not (tandem_test in
// cmake/TandemTargets.cmake), so the preprocessor does not know; that a sanitizer's runtime is
// linked says it.
#pragma once

extern "C" {
void __asan_init() __attribute__((weak));  // NOLINT: the runtimes' own names
void __tsan_init() __attribute__((weak));  // NOLINT
}

namespace tandem {

inline bool sanitized() {
  return __asan_init != nullptr || __tsan_init != nullptr;
}

}  // namespace tandem
