// Progress of a long job: a bar that redraws itself on a terminal, or a line now and then in a log.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "base/clock.h"

namespace tandem {

// Thread-safe. Writes to `fd` (standard error).
class Progress {
 public:
  // `what` is printed before the figures: "loading demo-llama".
  Progress(std::string what, int fd, bool terminal, const Clock& clock);
  // Ends the line if finish() was not called.
  ~Progress();

  void update(std::uint64_t done_bytes, std::uint64_t total_bytes);
  // Call it once. Prints the size, the total time and the speed.
  void finish();

  static bool is_terminal(int fd);
  // The bar alone, for tests: "loading x [#####     ]  50 %  1.0 of 2.0 GB, 2.0 GB/s".
  static std::string line(std::string_view what, std::uint64_t done, std::uint64_t total,
                          double seconds);

 private:
  void write_text(const std::string& text) const;

  std::string what_;
  int fd_;
  bool terminal_;
  const Clock& clock_;
  std::mutex mutex_;  // guards the rest
  TimePoint start_;
  TimePoint last_drawn_;
  TimePoint last_done_;  // last time at which more was done than before
  std::uint64_t done_ = 0;
  std::uint64_t total_ = 0;
  bool drawn_ = false;
  bool finished_ = false;
};

}  // namespace tandem
