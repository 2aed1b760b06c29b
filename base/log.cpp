#include "base/log.h"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "base/log_output.h"

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

constexpr int kLastFlushMs = 200;  // of a process that ends, for a reader that has fallen behind

// Never destroyed: threads may log until the very end.
LogOutput& output() {
  static LogOutput& instance = *new LogOutput;
  return instance;
}

// Standard output stays free for what a command prints.
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
    made->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
    std::atexit([] { output().flush(kLastFlushMs); });
    return *made;
  }();
  return instance;
}

}  // namespace

Result<Level> parse_level(std::string_view text) {
  if (text == "debug") return Level::debug;
  if (text == "info") return Level::info;
  if (text == "warning") return Level::warning;
  if (text == "error") return Level::error;
  if (text == "off") return Level::off;
  return invalid("unknown log level '{}': debug, info, warning, error or off", text);
}

void set_level(Level level) {
  logger().set_level(to_spdlog(level));
}

bool enabled(Level level) {
  return logger().should_log(to_spdlog(level));
}

void write(Level level, std::string_view message) {
  logger().log(to_spdlog(level), message);
}

}  // namespace tandem::log
