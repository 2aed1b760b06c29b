// Decides when the next step is planned: late enough that requests that arrive during a step join
// the next one, and early enough that the device finds that one when it has finished the first.
//
//   device   [ step 1 .................................][ step 2 .......................
//   engine    hand out 0 | look after what arrives ... | plan 2, enqueue 2 | wait 1 | hand out 1
//                                                      ^ plan_at() = expected end - margin
//
// The expected time is the second shortest of the latest steps of the same kind: a step that ends
// sooner than expected leaves the device idle, and one that ends later only makes an arrival wait.
// The margin is the second longest of the latest times from the planned start of planning until the
// device had work, plus slack for what cannot be foreseen. Every step that came too late doubles
// the slack, and every other step makes it a little smaller.
//
// Planning begins at once where the times are unknown or little would be saved: after few steps of
// a kind, behind a step that waits for weights or CPU workers, and where steps are short.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "engine/model/step/steps_in_flight.h"

namespace tandem {

// Steps that take about the same time: they have about as many rows, and run as a graph or do not.
struct StepKind {
  std::int32_t rows = 0;
  bool recorded = false;
};

// How the planning of a step began.
struct Planning {
  // The kind of work to plan, as it decides how long planning takes.
  enum class Work { decode, prompts, loads };

  TimePoint since;    // the time it was to begin; without plan_at(), the time it began
  bool held = false;  // it was delayed until plan_at()
  Work work = Work::decode;
};

// Numbers of steps by when they were enqueued.
struct EnqueueCounts {
  std::uint64_t at_once = 0;
  std::uint64_t in_time = 0;  // delayed, and enqueued before the device ran out of work
  std::uint64_t late = 0;     // delayed for too long
  double margin_s = 0;        // of decode steps; 0: unknown
};

// The second shortest and second longest of the latest values, so that a single outlier has no
// effect; of few values, the shortest and longest.
class RecentSeconds {
 public:
  void add(double seconds) { values_[num_added_++ % values_.size()] = seconds; }
  bool known() const { return num_added_ >= kFewest; }
  double short_one() const;  // both require known()
  double long_one() const;

 private:
  static constexpr std::size_t kFewest = 3;
  static constexpr std::size_t kMany = 6;

  std::size_t size() const { return std::min(num_added_, values_.size()); }
  std::array<double, 16> values_{};
  std::size_t num_added_ = 0;  // since the start
};

// For use by one thread.
class EnqueueTimer {
 public:
  // Adds a step behind those in flight. The device had some of its work at `launched`. No `kind`:
  // its time cannot be predicted. `gap_s`: see StepResult.
  void enqueued(const std::optional<StepKind>& kind, const Planning& planning, TimePoint launched,
                double gap_s);
  // Removes the oldest step. `counts`: it ended without failure, so its time may be used.
  void ended(TimePoint now, bool counts);
  // Removes all steps in flight without using their times.
  void clear() { num_steps_ = 0; }

  // When to begin planning the step behind the running one; no value: at once. Never later than the
  // expected end of the running step.
  std::optional<TimePoint> plan_at(Planning::Work next) const;

  EnqueueCounts counts() const;

 private:
  struct Step {
    std::optional<StepKind> kind;
    TimePoint launched;
  };
  // One bucket for each number of rows up to 8, then four for each doubling.
  static constexpr std::size_t kNumBuckets = 8 + 4 * 28;
  static std::size_t bucket_of(std::int32_t rows);

  TimePoint begun() const { return std::max(steps_.front().launched, last_end_); }  // of the oldest
  std::optional<double> expected(const StepKind& kind) const;
  std::optional<double> margin(Planning::Work work) const;

  std::array<Step, kMaxStepsInFlight> steps_;  // oldest first
  std::size_t num_steps_ = 0;
  TimePoint last_end_;
  std::array<std::array<RecentSeconds, kNumBuckets>, 2> took_;  // [recorded]
  std::array<RecentSeconds, 3> leads_;                          // [Planning::Work]
  double slack_s_ = 4e-4;  // the start value, until the need is known
  EnqueueCounts counts_;
};

}  // namespace tandem
