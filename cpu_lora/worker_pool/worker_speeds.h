// How fast the workers of a mailbox are, each beside the others: cores are not alike, for their
// hyperthreads and their hosts are others', too, and the slowest worker of a job counts.
//
// One thread.
#pragma once

#include <array>
#include <cstdint>

#include "shm/mailbox.h"

namespace tandem {

class WorkerSpeeds {
 public:
  // Looks at what the mailbox's workers say that they have computed: often, as between two steps.
  // Every kFewestJobs those that took part in all of them are compared; of others nothing is
  // learnt, as jobs that they had no part in were of other sizes.
  void look(const Mailbox& mailbox);
  // For jobs from now on. What differs by less than kAlike from the median is even.
  const WorkerSlotWeights& weights() const { return weights_; }

  static constexpr std::uint64_t kFewestJobs = 8;
  static constexpr double kAlike = 0.1;
  // A worker's word is not trusted further: it is taken to be so much slower or faster at most.
  static constexpr double kSlowest = 0.4, kFastest = 2;

 private:
  struct Counted {
    std::uint64_t jobs = 0, ns = 0, parts = 0;
  };
  std::array<Counted, kMaxWorkerSlots> counted_{};  // when they were compared last
  std::array<double, kMaxWorkerSlots> speeds_ = [] {
    std::array<double, kMaxWorkerSlots> even{};
    even.fill(1);
    return even;
  }();  // of the median, of late
  WorkerSlotWeights weights_ = kEvenWeights;
};

}  // namespace tandem
