// The rows that a kernel is about to read and write, told to the sanitizer before its loops, which
// are compiled without instrumentation: asking about every vector takes ten times the arithmetic
// itself; asked once for a row, the same bytes are guarded almost for nothing.
//
// ThreadSanitizer keeps four bytes for each and looks at all of those, which took three quarters of
// an engine's time: of what is read it is told a byte of each cache line, of rows that are written
// whole fewer. It misses a write between two of them; what is written it is told in full.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"

// Defined by CMakeLists.txt, as the compiler's own names are not where nothing is instrumented.
#if defined(TANDEM_ADDRESS_SANITIZER)
extern "C" void* __asan_region_is_poisoned(void* begin, std::size_t size);
#elif defined(TANDEM_THREAD_SANITIZER)
extern "C" void __tsan_read1(void* at);
extern "C" void __tsan_write_range(void* begin, unsigned long size);
#endif

namespace tandem::host {

// How far apart the bytes are of which ThreadSanitizer is told.
inline constexpr std::size_t kLine = 64;
inline constexpr std::size_t kOfWholeRows = 512;  // weights, keys: nobody writes less than a row

// n elements of `element` bytes. Ends the process where a byte of them is not the program's
// (AddressSanitizer), reports a race on one in `apart` or the last (ThreadSanitizer); without a
// sanitizer: nothing.
inline void note_read_row([[maybe_unused]] const void* row, [[maybe_unused]] std::int64_t n,
                          [[maybe_unused]] std::size_t element,
                          [[maybe_unused]] std::size_t apart = kLine) {
#if defined(TANDEM_ADDRESS_SANITIZER)
  const std::size_t bytes = static_cast<std::size_t>(n) * element;
  void* const bad = __asan_region_is_poisoned(const_cast<void*>(row), bytes);
  TANDEM_CHECK(bad == nullptr, "a row of {} bytes at {}: {} is not the program's", bytes, row, bad);
#elif defined(TANDEM_THREAD_SANITIZER)
  const std::size_t bytes = static_cast<std::size_t>(n) * element;
  auto* const begin = static_cast<std::byte*>(const_cast<void*>(row));
  for (std::size_t at = 0; at < bytes; at += apart) __tsan_read1(begin + at);
  if (bytes > 0) __tsan_read1(begin + bytes - 1);
#endif
}
inline void note_write_row(const void* row, std::int64_t n, std::size_t element) {
#if defined(TANDEM_THREAD_SANITIZER)
  __tsan_write_range(const_cast<void*>(row), static_cast<std::size_t>(n) * element);
#else
  note_read_row(row, n, element);
#endif
}

// `count` rows, `stride` elements apart.
inline void note_read_rows(const void* rows, std::int64_t count, std::size_t element,
                           std::int64_t stride, std::int64_t n, std::size_t apart = kLine) {
  const auto* row = static_cast<const std::byte*>(rows);
  const std::int64_t step = stride * static_cast<std::int64_t>(element);
  for (std::int64_t r = 0; r < count; ++r) note_read_row(row + r * step, n, element, apart);
}
inline void note_write_rows(const void* rows, std::int64_t count, std::size_t element,
                            std::int64_t stride, std::int64_t n) {
  const auto* row = static_cast<const std::byte*>(rows);
  const std::int64_t step = stride * static_cast<std::int64_t>(element);
  for (std::int64_t r = 0; r < count; ++r) note_write_row(row + r * step, n, element);
}

}  // namespace tandem::host
