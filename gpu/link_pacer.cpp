#include "gpu/link_pacer.h"

namespace tandem {

Duration LinkPacer::time_of(std::size_t bytes) const {
  if (!throttled()) return {};
  return duration_of(static_cast<double>(bytes) / bytes_per_second_);
}

TimePoint LinkPacer::reserve(TimePoint now, std::size_t bytes) {
  if (!throttled()) return now;
  const std::lock_guard lock(mutex_);
  const bool goes_on = free_at_ != TimePoint::min() && free_at_ >= now - kCredit;
  free_at_ = (goes_on ? free_at_ : now) + time_of(bytes);
  return free_at_;
}

}  // namespace tandem
