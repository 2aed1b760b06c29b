#include "tools/cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/limits/bytes_text.h"
#include "base/log/log.h"

namespace tandem {
namespace {

constexpr int kBarWidth = 30;
// Short enough to show activity, long enough to cost nothing.
constexpr auto kTerminalInterval = std::chrono::milliseconds(100);
constexpr auto kLogInterval = std::chrono::seconds(5);

}  // namespace

Progress::Progress(std::string what, int fd, bool terminal, const Clock& clock)
    : what_(std::move(what)), fd_(fd), terminal_(terminal), clock_(clock), start_(clock.now()) {
  last_drawn_ = last_done_ = start_;
}

Progress::~Progress() {
  if (terminal_ && drawn_ && !finished_) write_text("\n");
}

bool Progress::is_terminal(int fd) {
  return isatty(fd) == 1 && log::format() != log::Format::json;
}

std::string Progress::line(std::string_view what, std::uint64_t done, std::uint64_t total,
                           double seconds) {
  const double share =
      total == 0 ? 1.0 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const auto filled = static_cast<std::size_t>(share * kBarWidth);
  const std::string speed =
      seconds > 0 ? fmt::format(", {}/s", bytes_text(static_cast<double>(done) / seconds)) : "";
  return fmt::format("{} [{}{}] {:3.0f} %  {} of {}{}", what, std::string(filled, '#'),
                     std::string(kBarWidth - filled, ' '), share * 100,
                     bytes_text(static_cast<double>(done)), bytes_text(static_cast<double>(total)),
                     speed);
}

void Progress::update(std::uint64_t done_bytes, std::uint64_t total_bytes) {
  const std::lock_guard lock(mutex_);
  // Threads report in any order, so a report may be older than the last one; the bar never goes
  // back.
  const TimePoint now = clock_.now();
  if (done_bytes > done_) last_done_ = now;
  done_ = std::max(done_, done_bytes);
  total_ = total_bytes;
  const Duration interval = terminal_ ? Duration(kTerminalInterval) : Duration(kLogInterval);
  if (finished_ || now - last_drawn_ < interval) return;
  last_drawn_ = now;
  drawn_ = true;
  const std::string text = line(what_, done_, total_, seconds_between(start_, now));
  write_text(terminal_ ? "\r" + text + "\x1b[K" : text + "\n");
}

void Progress::finish() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(finished_, true)) return;
  const double seconds = seconds_between(start_, last_done_);
  const std::string speed =
      seconds > 0 ? fmt::format(", {}/s", bytes_text(static_cast<double>(total_) / seconds)) : "";
  write_text(fmt::format("{}{}: {} in {:.2f} s{}{}\n", terminal_ ? "\r" : "", what_,
                         bytes_text(static_cast<double>(total_)), seconds, speed,
                         terminal_ ? "\x1b[K" : ""));
}

void Progress::write_text(const std::string& text) const {
  if (!terminal_ && log::format() == log::Format::json) {
    return log::info("{}", std::string_view(text).substr(0, text.size() - 1));
  }
  // A progress line that cannot be written is no reason to stop.
  [[maybe_unused]] const ssize_t written = write(fd_, text.data(), text.size());
}

}  // namespace tandem
