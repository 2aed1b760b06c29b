#include "engine/adapters/reading_pace.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tandem {
namespace {

constexpr double kSoon = 1e-6;  // 0 would mean present

}  // namespace

ReadingPace::ReadingPace(std::vector<std::uint64_t> layer_bytes, TimePoint begin)
    : bytes_left_(std::move(layer_bytes)), begin_(begin), last_(begin) {}

void ReadingPace::layer_there(std::size_t layer, TimePoint now) {
  bytes_there_ += std::exchange(bytes_left_[layer], 0);
  last_ = std::max(last_, now);
}

ReadingPace::Speed ReadingPace::speed(TimePoint now) const {
  const auto next =
      std::ranges::find_if(bytes_left_, [](std::uint64_t bytes) { return bytes > 0; });
  if (next == bytes_left_.end()) return {0, 0};
  const double byte_s =
      bytes_there_ == 0 ? 0 : seconds_between(begin_, last_) / static_cast<double>(bytes_there_);
  const double since = std::max(0.0, seconds_between(last_, now));
  const double late = std::max(0.0, since - static_cast<double>(*next) * byte_s);
  return {byte_s, 2 * late - since};
}

std::vector<double> ReadingPace::seconds_left(TimePoint now) const {
  const std::uint64_t all = std::reduce(bytes_left_.begin(), bytes_left_.end());
  if (all == 0) return {};
  const Speed speed = this->speed(now);
  std::vector<double> left(bytes_left_.size(), 0);
  double bytes = 0;
  for (std::size_t l = 0; l < left.size(); ++l) {
    if (bytes_left_[l] == 0) continue;
    bytes += static_cast<double>(bytes_left_[l]);
    left[l] = std::max(kSoon, speed.offset_s + bytes * speed.byte_s);
  }
  return left;
}

double ReadingPace::rest(TimePoint now) const {
  const std::uint64_t all = std::reduce(bytes_left_.begin(), bytes_left_.end());
  if (all == 0) return 0;
  const Speed speed = this->speed(now);
  return std::max(kSoon, speed.offset_s + static_cast<double>(all) * speed.byte_s);
}

}  // namespace tandem
