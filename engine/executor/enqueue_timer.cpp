#include "engine/executor/enqueue_timer.h"

#include <bit>
#include <chrono>

#include "base/check.h"

namespace tandem {
namespace {

// The usual delay of a waking thread on a quiet machine plus the error of the measured step ends.
constexpr double kLeastSlack = 1e-4;
// A stall of the machine is no trend, so the slack has a limit.
constexpr double kMostSlack = 20e-3;
// The slack halves in 89 steps, so about one step in 89 comes too late.
constexpr double kShrinks = 127.0 / 128;
// Shorter steps, in margins, have little to gain and much to lose.
constexpr double kFewestMargins = 4;

}  // namespace

double RecentSeconds::short_one() const {
  TANDEM_CHECK(known());
  std::array<double, 16> sorted = values_;
  const auto at = sorted.begin() + (size() < kMany ? 0 : 1);
  std::nth_element(sorted.begin(), at, sorted.begin() + static_cast<std::ptrdiff_t>(size()));
  return *at;
}

double RecentSeconds::long_one() const {
  TANDEM_CHECK(known());
  std::array<double, 16> sorted = values_;
  const auto end = sorted.begin() + static_cast<std::ptrdiff_t>(size());
  const auto at = end - (size() < kMany ? 1 : 2);
  std::nth_element(sorted.begin(), at, end);
  return *at;
}

void EnqueueTimer::enqueued(const std::optional<StepKind>& kind, const Planning& planning,
                            TimePoint launched, double gap_s) {
  TANDEM_CHECK(num_steps_ < kMaxStepsInFlight, "{} steps under way", num_steps_);
  steps_[num_steps_++] = {kind, launched};
  leads_[static_cast<std::size_t>(planning.work)].add(
      std::max(0.0, seconds_between(planning.since, launched)));
  if (planning.held && gap_s > 0) {
    ++counts_.late;
    slack_s_ = std::min(2 * slack_s_, kMostSlack);
    return;
  }
  ++(planning.held ? counts_.in_time : counts_.at_once);
  slack_s_ = std::max(kShrinks * slack_s_, kLeastSlack);
}

void EnqueueTimer::ended(TimePoint now, bool counts) {
  TANDEM_CHECK(num_steps_ > 0, "no step is under way");
  if (const auto& kind = steps_.front().kind; counts && kind) {
    took_[kind->recorded ? 1 : 0][bucket_of(kind->rows)].add(seconds_between(begun(), now));
  }
  std::shift_left(steps_.begin(), steps_.end(), 1);
  --num_steps_;
  last_end_ = now;
}

std::optional<TimePoint> EnqueueTimer::plan_at(Planning::Work next) const {
  if (num_steps_ != 1 || !steps_.front().kind) return std::nullopt;
  const std::optional<double> takes_s = expected(*steps_.front().kind);
  const std::optional<double> margin_s = margin(next);
  if (!takes_s || !margin_s || *takes_s < kFewestMargins * *margin_s) return std::nullopt;
  return begun() + duration_of(*takes_s - *margin_s);
}

EnqueueCounts EnqueueTimer::counts() const {
  EnqueueCounts counts = counts_;
  counts.margin_s = margin(Planning::Work::decode).value_or(0);
  return counts;
}

std::size_t EnqueueTimer::bucket_of(std::int32_t rows) {
  TANDEM_CHECK(rows > 0, "{} rows", rows);
  const auto last = static_cast<std::uint32_t>(rows - 1);
  if (last < 8) return last;
  const auto width = static_cast<std::uint32_t>(std::bit_width(last));  // 4: 9 to 16 rows
  return 8 + 4 * (width - 4) + ((last >> (width - 3)) & 3U);
}

// A kind without measurements gets the time of steps of fewer rows, as it rarely takes less.
std::optional<double> EnqueueTimer::expected(const StepKind& kind) const {
  const auto& took = took_[kind.recorded ? 1 : 0];
  for (std::size_t i = bucket_of(kind.rows) + 1; i-- > 0;) {
    if (took[i].known()) return took[i].short_one();
  }
  return std::nullopt;
}

std::optional<double> EnqueueTimer::margin(Planning::Work work) const {
  const RecentSeconds& leads = leads_[static_cast<std::size_t>(work)];
  if (!leads.known()) return std::nullopt;
  return leads.long_one() + slack_s_;
}

}  // namespace tandem
