// Standard error for a log: a reader that does not read costs lines, never time.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>

namespace tandem {

// Thread-safe. Needs no thread of its own: what a full pipe, terminal or socket does not take waits
// here, at most kMaxWaitingBytes of it, for the next line or the end of the process; the oldest
// lines make room for newer ones, and how many is said. To files it writes as they come.
class LogOutput {
 public:
  static constexpr std::size_t kMaxWaitingBytes = 1U << 20;

  void write(std::string_view line);
  // Gives a reader that has fallen behind this long.
  void flush(int timeout_ms);

 private:
  enum class Way { direct, non_blocking, socket };

  void look_at_stderr();
  bool send_waiting();
  std::ptrdiff_t send(std::string_view bytes);

  std::mutex mutex_;
  std::deque<std::string> waiting_;
  std::size_t waiting_bytes_ = 0;
  std::size_t sent_ = 0;  // of the first that waits
  std::uint64_t lost_ = 0;
  // What descriptor 2 is: looked at for each line, as it may be redirected.
  Way way_ = Way::direct;
  int own_ = -1;  // the same pipe or terminal, opened anew to be non-blocking for us alone
  std::uint64_t device_ = 0;
  std::uint64_t inode_ = 0;
  bool known_ = false;
};

}  // namespace tandem
