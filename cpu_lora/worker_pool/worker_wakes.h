// How long the workers of a mailbox take to wake. A core that rests is as a rule back within a
// tenth of a millisecond; one of a virtual machine may be milliseconds away, and a job ends with
// the last of its workers: so plans count with it.
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

// The worker slots whose workers sleep.
std::uint64_t sleepers(const Mailbox& mailbox);

class WorkerWakes {
 public:
  // Until something was seen.
  static constexpr double kFirstGuessS = 1e-4;
  // A worker that is held up for longer, as one that was stopped, says nothing of the next wake.
  static constexpr double kMostS = 0.02;
  static constexpr std::size_t kRemembered = 16;
  static constexpr double kDrowsyS = 0.01;

  // Before the mailbox's workers are woken. `undisturbed`: mask of those whose cores nobody else
  // wants just now; of others nothing is learnt.
  void note_waking(const Mailbox& mailbox, std::uint64_t undisturbed, TimePoint now);
  // Learns from who is awake by now: often, as between two steps. What workers say of the time is
  // bounded by `now`: it is at worst a wrong guess.
  void look(const Mailbox& mailbox, TimePoint now);
  // Until all of `asleep`, who sleep, would be awake, if they are woken now or have been: in
  // seconds, expected.
  double awake_in(std::uint64_t asleep, TimePoint now) const;
  // For how long it counts that they slept, in seconds: who is woken now, or was lately, may be
  // held up more than others, for a core that rested was somebody else's meanwhile.
  double drowsy_for(std::uint64_t asleep, TimePoint now) const;
  // What the last one takes, of late the mean, in seconds; 0: nothing was seen.
  double usual_s() const { return usual_s_; }

 private:
  // Mean and number of the rests beyond `elapsed_s` of the times that took longer.
  struct Rests {
    double mean_s = 0;
    int count = 0;
  };
  Rests rests_after(std::uint64_t asleep, double elapsed_s) const;

  std::optional<TimePoint> slept_until_;  // somebody did who was woken then, learnt of or not
  // Of the last time that somebody was woken: who has not come yet, and what his worker slot said
  // before.
  std::uint64_t awaited_ = 0;
  TimePoint woken_at_;
  std::array<std::uint64_t, kMaxWorkerSlots> said_{};
  // Of the last times: how long each one took, in seconds; below 0: it is not known.
  using Took = std::array<float, kMaxWorkerSlots>;
  std::array<Took, kRemembered> seen_{};
  std::size_t num_seen_ = 0;  // ever; with the one that is under way
  double usual_s_ = 0;
};

}  // namespace tandem
