// The speed of each worker of a mailbox, relative to the others. Cores differ, for example if
// another process or virtual machine uses their hyperthreads, and a job lasts as long as its
// slowest worker.
//
// One thread.
#pragma once

#include <array>
#include <cstdint>

#include "shm/mailbox.h"

namespace tandem {

class WorkerSpeeds {
 public:
  // Reads the counters of the mailbox's workers; call it often, for example between two steps.
  // After every kFewestJobs jobs, the workers that took part in all of them are compared. The
  // others are skipped, because the jobs that they missed were of other sizes.
  void look(const Mailbox& mailbox);
  // Weights for the next jobs. Speeds that differ by less than kAlike from the median count as
  // equal.
  const WorkerSlotWeights& weights() const { return weights_; }

  static constexpr std::uint64_t kFewestJobs = 8;
  static constexpr double kAlike = 0.1;
  // The counters are not fully trusted: a speed is clamped to this range.
  static constexpr double kSlowest = 0.4, kFastest = 2;

 private:
  struct Counted {
    std::uint64_t jobs = 0, ns = 0, parts = 0;
  };
  std::array<Counted, kMaxWorkerSlots> counted_{};  // at the last comparison
  std::array<double, kMaxWorkerSlots> speeds_ = [] {
    std::array<double, kMaxWorkerSlots> even{};
    even.fill(1);
    return even;
  }();  // recent speed relative to the median
  WorkerSlotWeights weights_ = kEvenWeights;
};

}  // namespace tandem
