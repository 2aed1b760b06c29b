// Masks computed on a thread of their own, as what a constraint makes of one token cannot be
// interrupted: whoever waits for them gives up on the one that takes too long, and on no other.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/token_id.h"
#include "engine/constraint/token_filter.h"

namespace tandem {

struct MaskTask {
  std::shared_ptr<TokenFilter> filter;
  std::vector<TokenId> output;  // see TokenFilter::next
  bool hold_end = false;
  std::vector<std::uint32_t> mask = {};  // of so many words; overwritten
  Result<TokenFilter::Outlook> outlook = TokenFilter::Outlook::open;
};

struct MaskLimits {
  // Of one mask. Masks take some 10 us; those of a hostile pattern have taken seconds.
  Duration cpu = std::chrono::milliseconds(250);  // of the processor: a busy machine is no reason
  Duration wall = std::chrono::seconds(5);        // where the thread does not get on at all
  int most_abandoned = 4;  // threads left to their masks at a time; beyond them masks are refused
};

// For one thread. The other one begins with the first tasks.
class MaskThread {
 public:
  explicit MaskThread(const MaskLimits& limits = {});
  // Does not wait for threads that were left to a mask: they end with it.
  ~MaskThread();
  MaskThread(const MaskThread&) = delete;
  MaskThread& operator=(const MaskThread&) = delete;

  // Fills in mask and outlook of each. A filter whose mask takes too long is abandoned
  // (TokenFilter::abandon), its outlook an error: invalid_argument. unavailable: too many are being
  // computed since earlier. Throws std::bad_alloc and std::system_error; the tasks are done or not.
  void compute(std::span<MaskTask> tasks);

 private:
  struct Batch;
  class Worker;
  // How many of them were done; the next one, if there is one, has taken too long.
  std::size_t compute_up_to_limit(std::span<MaskTask> tasks);

  const MaskLimits limits_;
  std::shared_ptr<Worker> worker_;  // null: none now
  std::shared_ptr<std::atomic<int>> abandoned_;
};

}  // namespace tandem
