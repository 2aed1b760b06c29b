// A log with levels on standard error, without ever waiting for it: text, or one JSON object per
// line. Thread-safe. Must not contain secrets or prompts.
#pragma once

#include <fmt/format.h>

#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/log/log_levels.h"
#include "base/log/log_line.h"
#include "base/status.h"

namespace tandem::log {

enum class Format { text, json };

Result<Format> parse_format(std::string_view text);
void set_format(Format format);
Format format();

// Callable at any time, from any thread; concurrent lines may still use the old levels.
void set_levels(const Levels& levels);
void set_level(Level level);  // of all modules
// The current levels.
Levels levels();

// True if a line of this source, as the compiler names it, is written. Costs one relaxed load
// unless modules have their own levels.
bool enabled(Level level, const char* source = __builtin_FILE());
void write(Level level, const char* source, std::string_view message,
           std::span<const Field> fields = {});

// A format string and the caller's source file.
template <typename... Args>
struct Said {
  template <typename Text>
  consteval Said(const Text& text, const char* file = __builtin_FILE())  // NOLINT: as fmt's
      : format(text), source(file) {}
  fmt::format_string<Args...> format;
  const char* source;
};
template <typename... Args>
using Located = Said<std::type_identity_t<Args>...>;

template <typename... Args>
void debug(Located<Args...> said, Args&&... args) {
  if (!enabled(Level::debug, said.source)) return;
  write(Level::debug, said.source, fmt::format(said.format, std::forward<Args>(args)...));
}
template <typename... Args>
void info(Located<Args...> said, Args&&... args) {
  if (!enabled(Level::info, said.source)) return;
  write(Level::info, said.source, fmt::format(said.format, std::forward<Args>(args)...));
}
template <typename... Args>
void warning(Located<Args...> said, Args&&... args) {
  if (!enabled(Level::warning, said.source)) return;
  write(Level::warning, said.source, fmt::format(said.format, std::forward<Args>(args)...));
}
template <typename... Args>
void error(Located<Args...> said, Args&&... args) {
  if (!enabled(Level::error, said.source)) return;
  write(Level::error, said.source, fmt::format(said.format, std::forward<Args>(args)...));
}

// A line for programs: `message`, one word or a few, and named values.
inline void info_with(std::string_view message, std::span<const Field> fields,
                      const char* source = __builtin_FILE()) {
  if (enabled(Level::info, source)) write(Level::info, source, message, fields);
}

}  // namespace tandem::log
