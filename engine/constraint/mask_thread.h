// Computes masks on a separate thread. The computation for one token cannot be interrupted, so the
// caller abandons a mask that takes too long, and only that one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/ids/token_id.h"
#include "base/status.h"
#include "engine/constraint/token_filter.h"

namespace tandem {

struct MaskTask {
  std::shared_ptr<TokenFilter> filter;
  std::vector<TokenId> output;  // like the argument of TokenFilter::next
  bool hold_end = false;
  std::vector<std::uint32_t> mask = {};  // must have its final size; overwritten
  Result<TokenFilter::Outlook> outlook = TokenFilter::Outlook::open;
};

struct MaskLimits {
  // The limits for one mask. Masks take some 10 us; those of a hostile pattern have taken seconds.
  Duration cpu = std::chrono::milliseconds(250);  // of processor time
  Duration wall = std::chrono::seconds(5);        // for a thread that gets no processor time at all
  int most_abandoned = 4;  // limit on abandoned threads; above it masks are refused
};

// Single-threaded. The computing thread is started with the first tasks.
class MaskThread {
 public:
  explicit MaskThread(const MaskLimits& limits = {});
  // Does not wait for abandoned threads; each ends after its mask.
  ~MaskThread();
  MaskThread(const MaskThread&) = delete;
  MaskThread& operator=(const MaskThread&) = delete;

  // Computes mask and outlook of each task. A filter whose mask takes too long is abandoned
  // (TokenFilter::abandon) and its outlook is the error invalid_argument; unavailable: too many
  // abandoned masks are still being computed. Throws std::bad_alloc and std::system_error; the
  // tasks are then done or not.
  void compute(std::span<MaskTask> tasks);

 private:
  struct Batch;
  class Worker;
  // Returns the number of tasks done; the next task, if there is one, has taken too long.
  std::size_t compute_up_to_limit(std::span<MaskTask> tasks);

  const MaskLimits limits_;
  std::shared_ptr<Worker> worker_;  // null: not started
  std::shared_ptr<std::atomic<int>> abandoned_;
};

}  // namespace tandem
