// The progress of a file that is still being written, from its beginning on, for readers that start
// before it is complete.
//
// Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/status.h"

namespace tandem {

class FileProgress {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // For a file that will have `size` bytes, none of which exist at `now`. Readers stop waiting if
  // nothing has arrived for `longest_silence`.
  explicit FileProgress(std::uint64_t size, Time now = std::chrono::steady_clock::now(),
                        std::chrono::milliseconds longest_silence = std::chrono::seconds(60));

  // Called by the writer: the next `bytes` can be read.
  void grow(std::uint64_t bytes, Time now = std::chrono::steady_clock::now());
  // No more will come; waiting readers fail with `why`, where ok means that the file ended early.
  // Only the first call has an effect.
  void end(Status why);

  std::uint64_t size() const { return size_; }
  // Waits until bytes [0, `end`) exist. Fails as end() says, or after too long a silence.
  Status wait_for(std::uint64_t end) const;
  // The expected time for the rest, at the average speed so far; max() as long as nothing has
  // arrived.
  std::chrono::steady_clock::duration rest(Time now) const;
  // The time at which the last bytes arrived.
  Time last_growth() const;

 private:
  const std::uint64_t size_;
  const Time begin_;
  const std::chrono::milliseconds longest_silence_;
  mutable std::mutex mutex_;  // guards the fields below
  mutable std::condition_variable changed_;
  std::uint64_t there_ = 0;
  Time last_growth_;
  bool ended_ = false;
  Status why_;
};

}  // namespace tandem
