// TANDEM_CHECK verifies an invariant of the program itself. It is never used for bad input.
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace tandem {

// Writes the place, the condition and the message to standard error, without blocking on its
// reader, and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               std::string_view message);

// TANDEM_CHECK(cond) or TANDEM_CHECK(cond, "format {}", values...). Active in every build.
#define TANDEM_CHECK(cond, ...)                                                         \
  do {                                                                                  \
    if (!(cond)) [[unlikely]]                                                           \
      ::tandem::check_failed(__FILE__, __LINE__, #cond, ::fmt::format("" __VA_ARGS__)); \
  } while (false)

}  // namespace tandem
