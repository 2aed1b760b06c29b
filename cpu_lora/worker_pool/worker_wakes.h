// Measures how long the workers of a mailbox take to wake. An idle core usually returns within a
// tenth of a millisecond; a core of a virtual machine may take milliseconds. A job ends with its
// last worker, so plans include this time.
//
// One thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "shm/mailbox.h"

namespace tandem {

// Mask of the worker slots whose workers sleep.
std::uint64_t sleepers(const Mailbox& mailbox);

class WorkerWakes {
 public:
  // The assumed time until the first measurement.
  static constexpr double kFirstGuessS = 1e-4;
  // A longer delay, such as that of a stopped worker, says nothing about the next wake.
  static constexpr double kMostS = 0.02;
  static constexpr std::size_t kRemembered = 16;
  static constexpr double kJustWokenS = 0.01;

  // Call it before the mailbox's workers are woken. `undisturbed`: mask of workers whose cores no
  // other thread wants at present; the others are not measured.
  void note_waking(const Mailbox& mailbox, std::uint64_t undisturbed, TimePoint now);
  // Measures the workers that are awake by now; call it often, for example between two steps. The
  // times that workers write are clamped to `now`, so that a wrong one causes a wrong guess at
  // worst.
  void look(const Mailbox& mailbox, TimePoint now);
  // Expected time in seconds until all sleeping workers of `asleep` are awake, if they are woken
  // now or have been woken already.
  double awake_in(std::uint64_t asleep, TimePoint now) const;
  // Time in seconds for which the earlier sleep of workers matters: a worker that is woken now, or
  // was woken recently, may be delayed more than others, because something else may have used its
  // core.
  double just_woken_for(std::uint64_t asleep, TimePoint now) const;
  // Recent mean of the time in seconds that the last worker takes; 0: nothing measured yet.
  double usual_s() const { return usual_s_; }

 private:
  // For the samples longer than `elapsed_s`: their number, and the mean of the remaining time.
  struct Rests {
    double mean_s = 0;
    int count = 0;
  };
  Rests rests_after(std::uint64_t asleep, double elapsed_s) const;

  std::optional<TimePoint> slept_until_;  // when a woken worker last slept, measured or not
  // At the last wake: the workers that are not awake yet, and the wake time that each worker slot
  // contained before.
  std::uint64_t awaited_ = 0;
  TimePoint woken_at_;
  std::array<std::uint64_t, kMaxWorkerSlots> said_{};
  // Recent wakes: how long each worker took, in seconds; below 0: not known.
  using Took = std::array<float, kMaxWorkerSlots>;
  std::array<Took, kRemembered> seen_{};
  std::size_t num_seen_ = 0;  // in total, including the wake in progress
  double usual_s_ = 0;
};

}  // namespace tandem
