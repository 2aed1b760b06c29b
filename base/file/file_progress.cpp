#include "base/file/file_progress.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace tandem {

FileProgress::FileProgress(std::uint64_t size, Time now, std::chrono::milliseconds longest_silence)
    : size_(size), begin_(now), longest_silence_(longest_silence), last_growth_(now) {}

void FileProgress::grow(std::uint64_t bytes, Time now) {
  {
    const std::lock_guard lock(mutex_);
    there_ += std::min(bytes, size_ - there_);
    last_growth_ = now;
  }
  changed_.notify_all();
}

void FileProgress::end(Status why) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(ended_, true)) return;
    why_ = std::move(why);
  }
  changed_.notify_all();
}

Status FileProgress::wait_for(std::uint64_t end) const {
  std::unique_lock lock(mutex_);
  while (there_ < end) {
    if (ended_) {
      return why_.ok() ? invalid("there are {} bytes of the {} that were announced", there_, size_)
                       : why_;
    }
    const std::uint64_t before = there_;
    if (changed_.wait_until(lock, last_growth_ + longest_silence_) == std::cv_status::timeout &&
        there_ == before && !ended_) {
      return error(StatusCode::unavailable, "nothing more came after {} bytes of {}", there_,
                   size_);
    }
  }
  return {};
}

std::chrono::steady_clock::duration FileProgress::rest(Time now) const {
  const std::lock_guard lock(mutex_);
  if (there_ == size_) return {};
  if (there_ == 0) return std::chrono::steady_clock::duration::max();
  const std::chrono::duration<double> took = now - begin_;
  const double times = static_cast<double>(size_ - there_) / static_cast<double>(there_);
  constexpr double kMostSeconds = 1e9;  // far below the clock's range
  return duration_of(std::min(took.count() * times, kMostSeconds));
}

FileProgress::Time FileProgress::last_growth() const {
  const std::lock_guard lock(mutex_);
  return last_growth_;
}

}  // namespace tandem
