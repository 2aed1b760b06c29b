// How much is there of a file that somebody still writes, from its beginning on: for those who read
// what has come while the rest is on its way.
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

  // Of a file that will have `size` bytes, of which none are there at `now`. Who waits for more
  // does not wait on when nothing has come for `longest_silence`.
  explicit FileProgress(std::uint64_t size, Time now = std::chrono::steady_clock::now(),
                        std::chrono::milliseconds longest_silence = std::chrono::seconds(60));

  // By the writer: the next `bytes` can be read.
  void grow(std::uint64_t bytes, Time now = std::chrono::steady_clock::now());
  // No more comes, and `why` is what those hear who wait for more; ok: it ended early. The first
  // call counts.
  void end(Status why);

  std::uint64_t size() const { return size_; }
  // Waits until bytes [0, `end`) are there. Fails as end() says, or after too long a silence.
  Status wait_for(std::uint64_t end) const;
  // How long the rest will take if it comes as fast as what is there came; max() as long as that is
  // nothing.
  std::chrono::steady_clock::duration rest(Time now) const;
  // When what came last had come.
  Time last_growth() const;

 private:
  const std::uint64_t size_;
  const Time begin_;
  const std::chrono::milliseconds longest_silence_;
  mutable std::mutex mutex_;  // guards these
  mutable std::condition_variable changed_;
  std::uint64_t there_ = 0;
  Time last_growth_;
  bool ended_ = false;
  Status why_;
};

}  // namespace tandem
