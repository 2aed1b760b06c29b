// When the next step is to be planned: so late that whoever arrives while a step runs joins the one
// behind it, and so early that the device finds that one when it has finished the first.
//
//   device   [ step 1 .................................][ step 2 .......................
//   engine    hand out 0 | look after what arrives ... | plan 2, enqueue 2 | wait 1 | hand out 1
//                                                      ^ plan_at() = expected end - margin
//
// Expected is the time that the last steps of its kind took, by the second shortest of them: a step
// that ends sooner than expected leaves the device idle, one that ends later makes an arrival wait.
// The margin is what it took of late from when planning was to begin until the device had something
// to do, by the second longest, and slack for what nobody can foresee: every step that came too
// late doubles it, every other makes it a little smaller.
//
// Where that is not known, or would save next to nothing, planning begins at once: after few steps
// of a kind, behind a step that waits for weights or for CPU workers, where steps are short.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "engine/model/step/steps_in_flight.h"

namespace tandem {

// Steps that take about as long: by their rows, and by whether they were recorded.
struct StepKind {
  std::int32_t rows = 0;
  bool recorded = false;
};

// How the planning of a step began.
struct Planning {
  // What there is to plan, as it decides how long that takes.
  enum class Work { decode, prompts, loads };

  TimePoint since;    // when it was to begin; at once: when it did
  bool held = false;  // it was held back for plan_at()
  Work work = Work::decode;
};

// Steps by when they were enqueued.
struct EnqueueCounts {
  std::uint64_t at_once = 0;
  std::uint64_t in_time = 0;  // held back, and there before the device had nothing to do
  std::uint64_t late = 0;     // held back for too long
  double margin_s = 0;        // of decode steps; 0: not known
};

// The shortest and the longest of the last values but one each, so that a single hiccup means
// nothing; of few values, the shortest and the longest.
class RecentSeconds {
 public:
  void add(double seconds) { values_[num_added_++ % values_.size()] = seconds; }
  bool known() const { return num_added_ >= kFewest; }
  double short_one() const;  // requires known(), as does long_one()
  double long_one() const;

 private:
  static constexpr std::size_t kFewest = 3;
  static constexpr std::size_t kMany = 6;

  std::size_t size() const { return std::min(num_added_, values_.size()); }
  std::array<double, 16> values_{};
  std::size_t num_added_ = 0;  // ever
};

// One thread.
class EnqueueTimer {
 public:
  // A step was put behind those under way, planned as told; the device had something of it at
  // `launched`. No `kind`: nobody knows how long it takes. `gap_s`: see StepResult.
  void enqueued(const std::optional<StepKind>& kind, const Planning& planning, TimePoint launched,
                double gap_s);
  // The oldest has ended; `counts`: well, so that its time says something.
  void ended(TimePoint now, bool counts);
  // Nothing is under way any more, and nothing was learnt.
  void clear() { num_steps_ = 0; }

  // When planning the step behind the one that runs is to begin; nothing: at once. Never later than
  // the step that runs is expected to end.
  std::optional<TimePoint> plan_at(Planning::Work next) const;

  EnqueueCounts counts() const;

 private:
  struct Step {
    std::optional<StepKind> kind;
    TimePoint launched;
  };
  // One for each number of rows up to 8, then four for each doubling.
  static constexpr std::size_t kNumBuckets = 8 + 4 * 28;
  static std::size_t bucket_of(std::int32_t rows);

  TimePoint begun() const { return std::max(steps_.front().launched, last_end_); }  // the oldest
  std::optional<double> expected(const StepKind& kind) const;
  std::optional<double> margin(Planning::Work work) const;

  std::array<Step, kMaxStepsInFlight> steps_;  // oldest first
  std::size_t num_steps_ = 0;
  TimePoint last_end_;
  std::array<std::array<RecentSeconds, kNumBuckets>, 2> took_;  // [recorded]
  std::array<RecentSeconds, 3> leads_;                          // [Planning::Work]
  double slack_s_ = 4e-4;  // until it is known how much is needed
  EnqueueCounts counts_;
};

}  // namespace tandem
