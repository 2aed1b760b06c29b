// Standard error for a log: if it is not read, lines are lost, but no time.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>

namespace tandem {

// Thread-safe. Needs no thread of its own: bytes that a full pipe, terminal or socket does not take
// wait here, up to kMaxWaitingBytes, for the next line or the end of the process. Older lines are
// dropped for newer ones, and their number is reported. Files are written immediately.
class LogOutput {
 public:
  static constexpr std::size_t kMaxWaitingBytes = 1U << 20;

  void write(std::string_view line);
  // Gives a reader that is behind this much time.
  void flush(int timeout_ms);

 private:
  enum class Way { direct, non_blocking, socket };

  void look_at_stderr();
  bool send_waiting();
  std::ptrdiff_t send(std::string_view bytes);

  std::mutex mutex_;
  std::deque<std::string> waiting_;
  std::size_t waiting_bytes_ = 0;
  std::size_t sent_ = 0;  // bytes of the first waiting line
  std::uint64_t lost_ = 0;
  // The kind of descriptor 2, checked for each line because it may be redirected.
  Way way_ = Way::direct;
  int own_ = -1;  // the same pipe or terminal, opened again, non-blocking only for us
  std::uint64_t device_ = 0;
  std::uint64_t inode_ = 0;
  bool known_ = false;
};

}  // namespace tandem
