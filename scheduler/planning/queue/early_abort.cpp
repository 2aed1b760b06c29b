#include "scheduler/planning/queue/early_abort.h"

#include <algorithm>
#include <bit>

namespace tandem {
namespace {

// The averages' period: an engine's rounds are shorter than a few tokens, so single rounds give no
// rates.
constexpr double kPeriodS = 0.02;
// The weight of a new value in an average: about thirty periods count.
constexpr double kNew = 1.0 / 32;
// A window of prefills ends after this many seconds or prefills, whichever comes first. The time
// limit lets a slow prefill be forgotten even if nothing is admitted any more; the count limit lets
// it be forgotten soon under load.
constexpr double kWindowS = 10;
constexpr std::int32_t kWindowPrefills = 32;

}  // namespace

void EarlyAbort::Window::turn() {
  longest_before_s = longest_s;
  longest_s = 0;
  count = 0;
}

std::size_t EarlyAbort::class_of(std::int64_t tokens) {
  const auto digits = static_cast<std::size_t>(
      std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(tokens, 0))));
  return std::min(digits, kClasses - 1);
}

void EarlyAbort::tick(double now_s) {
  if (!period_begin_s_) period_begin_s_ = now_s;
  const double passed_s = now_s - *period_begin_s_;
  if (passed_s < kPeriodS) return;
  end_period(arrived_, admitted_, passed_s);
  period_begin_s_ = now_s;
  arrived_ = admitted_ = 0;
}

void EarlyAbort::end_period(std::int64_t arrived, std::int64_t admitted, double seconds) {
  window_s_ += seconds;
  if (window_s_ >= kWindowS) {
    // After a pause of two windows both are empty.
    const int turns = window_s_ >= 2 * kWindowS ? 2 : 1;
    for (int i = 0; i < turns; ++i) {
      for (Window& window : prefills_) window.turn();
    }
    window_s_ = 0;
  }
  // A long time without requests says nothing about the rate afterwards.
  constexpr double kLongest = 10;
  empty_s_ = std::min(empty_s_ + seconds, kLongest);
  if (arrived == 0 && admitted == 0) return;
  period_s_ += kNew * (empty_s_ - period_s_);
  empty_s_ = 0;
  arrivals_ += kNew * (static_cast<double>(arrived) - arrivals_);
  admissions_ += kNew * (static_cast<double>(admitted) - admissions_);
}

void EarlyAbort::saw_prefill(double seconds, std::int64_t tokens) {
  Window& window = prefills_[class_of(tokens)];
  window.longest_s = std::max(window.longest_s, seconds);
  if (++window.count >= kWindowPrefills) window.turn();
}

double EarlyAbort::longest_prefill_s(std::int64_t tokens) const {
  double longest_s = 0;
  for (std::size_t i = 0; i <= class_of(tokens); ++i) {
    longest_s = std::max({longest_s, prefills_[i].longest_s, prefills_[i].longest_before_s});
  }
  return longest_s;
}

double EarlyAbort::retry_after_s(std::int64_t waiting) const {
  constexpr double kLeast = 1;
  constexpr double kMost = 60;
  if (admissions_ <= 0) return kLeast;
  return std::clamp(static_cast<double>(waiting) / admissions_ * period_s_, kLeast, kMost);
}

}  // namespace tandem
