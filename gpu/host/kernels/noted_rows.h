// Reports the rows that a kernel will read and write to the sanitizer before the kernel's loops,
// which are compiled without instrumentation: checking every vector takes ten times as long as the
// arithmetic, while checking whole rows once guards the same bytes at almost no cost.
//
// ThreadSanitizer keeps four bytes of state per byte and would check all, which took three quarters
// of an engine's time. So it is given one read byte per cache line, or fewer in rows that are
// always written whole. It misses writes between two such bytes. Written rows are given in full.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"

// Defined by CMakeLists.txt: the compiler's own macros are not set in uninstrumented code.
#if defined(TANDEM_ADDRESS_SANITIZER)
extern "C" void* __asan_region_is_poisoned(void* begin, std::size_t size);
#elif defined(TANDEM_THREAD_SANITIZER)
extern "C" void __tsan_read1(void* at);
extern "C" void __tsan_write_range(void* begin, unsigned long size);
#endif

namespace tandem::host {

// The distance between bytes that are reported to ThreadSanitizer.
inline constexpr std::size_t kLine = 64;
inline constexpr std::size_t kOfInputs = 256;   // the rows of x that a product reads
inline constexpr std::size_t kOfWholeRows = 0;  // weights, keys: the first byte stands for the row
// A product's matrix of more rows than a page has keys is a weight, of which each 8th row is noted.
inline constexpr std::int64_t kMostKeys = 32;
inline constexpr std::int64_t kOfWeights = 8;

// Checks n elements of `element` bytes. AddressSanitizer: ends the process if a byte is not the
// program's. ThreadSanitizer: reports a race on every `apart`-th byte or the last one; 0: on the
// first alone. Without a sanitizer this does nothing.
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
  if (bytes == 0) return;
  __tsan_read1(begin);
  if (apart == 0) return;
  for (std::size_t at = apart; at < bytes; at += apart) __tsan_read1(begin + at);
  __tsan_read1(begin + bytes - 1);
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
// The rows of a product's matrix: keys or weights.
inline void note_matrix(const void* rows, std::int64_t count, std::size_t element,
                        std::int64_t stride, std::int64_t n) {
#if defined(TANDEM_THREAD_SANITIZER)
  const std::int64_t apart = count > kMostKeys ? kOfWeights : 1;
  note_read_rows(rows, (count + apart - 1) / apart, element, stride * apart, n, kOfWholeRows);
#else
  note_read_rows(rows, count, element, stride, n);
#endif
}
inline void note_write_rows(const void* rows, std::int64_t count, std::size_t element,
                            std::int64_t stride, std::int64_t n) {
  const auto* row = static_cast<const std::byte*>(rows);
  const std::int64_t step = stride * static_cast<std::int64_t>(element);
  for (std::int64_t r = 0; r < count; ++r) note_write_row(row + r * step, n, element);
}

}  // namespace tandem::host
