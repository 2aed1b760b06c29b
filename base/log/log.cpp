#include "base/log/log.h"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>

#include "base/log/log_output.h"

namespace tandem::log {
namespace {

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warning:
      return spdlog::level::warn;
    case Level::error:
      return spdlog::level::err;
    case Level::off:
      return spdlog::level::off;
  }
  return spdlog::level::info;
}

constexpr const char* kTextPattern = "%Y-%m-%d %H:%M:%S.%e %^%l%$ %v";
constexpr const char* kJsonPattern = R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%v})";
constexpr int kLastFlushMs = 200;  // for a reader that is behind when the process ends

// Never destroyed, because threads may log until the very end.
LogOutput& output() {
  static LogOutput& instance = *new LogOutput;
  return instance;
}

// Standard output is left to a command's own output.
class StderrSink final : public spdlog::sinks::base_sink<std::mutex> {
 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t text;
    formatter_->format(message, text);
    std::string line(text.data(), text.size());
    if (colored_ && message.color_range_end > message.color_range_start) {
      line.insert(message.color_range_end, "\033[m");
      line.insert(message.color_range_start, color(message.level));
    }
    output().write(line);
  }
  void flush_() override {}

  static const char* color(spdlog::level::level_enum level) {
    switch (level) {
      case spdlog::level::warn:
        return "\033[33m\033[1m";
      case spdlog::level::err:
        return "\033[31m\033[1m";
      case spdlog::level::debug:
        return "\033[36m";
      default:
        return "\033[32m";
    }
  }

  const bool colored_ = ::isatty(STDERR_FILENO) == 1;
};

spdlog::logger& logger() {
  static spdlog::logger& instance = [&]() -> spdlog::logger& {
    auto* made = new spdlog::logger("tandem", std::make_shared<StderrSink>());
    made->set_pattern(kTextPattern);
    made->set_level(spdlog::level::trace);  // enabled() has already decided
    std::atexit([] { output().flush(kLastFlushMs); });
    return *made;
  }();
  return instance;
}

struct Rules {
  std::atomic<Level> lowest{Level::info};
  std::atomic<bool> has_modules{false};
  std::atomic<bool> json{false};
  std::mutex mutex;
  Levels levels;  // guarded by mutex
};

// Never destroyed, for the same reason.
Rules& rules() {
  static Rules& instance = *new Rules;
  return instance;
}

}  // namespace

Result<Format> parse_format(std::string_view text) {
  if (text == "text") return Format::text;
  if (text == "json") return Format::json;
  return invalid("unknown log format '{}': text or json", text);
}

void set_format(Format format) {
  const bool json = format == Format::json;
  logger().set_pattern(json ? kJsonPattern : kTextPattern);
  rules().json.store(json, std::memory_order_relaxed);  // guards nothing
}

Format format() {
  return rules().json.load(std::memory_order_relaxed) ? Format::json : Format::text;
}

void set_levels(const Levels& levels) {
  Rules& all = rules();
  const std::lock_guard lock(all.mutex);
  all.levels = levels;
  // relaxed: a line more or less under the old levels does no harm
  all.has_modules.store(!levels.is_one(), std::memory_order_relaxed);
  all.lowest.store(levels.lowest(), std::memory_order_relaxed);
}

void set_level(Level level) {
  set_levels(Levels(level));
}

Levels levels() {
  const std::lock_guard lock(rules().mutex);
  return rules().levels;
}

bool enabled(Level level, const char* source) {
  Rules& all = rules();
  if (level < all.lowest.load(std::memory_order_relaxed)) return false;
  if (!all.has_modules.load(std::memory_order_relaxed)) return true;
  const std::lock_guard lock(all.mutex);
  return level >= all.levels.of(module_of(source));
}

void write(Level level, const char* source, std::string_view message,
           std::span<const Field> fields) {
  const bool json = format() == Format::json;
  logger().log(to_spdlog(level), json ? json_members(module_of(source), message, fields)
                                      : text_line(message, fields));
}

}  // namespace tandem::log
