// The order in which waiting requests are admitted to the batch.
//
// Requests are due by priority; within a priority those that have begun before (and were preempted)
// come first, then by arrival or, optionally, tenants by turns (fair_share.h). Some requests may
// overtake: requests whose adapters are in the batch already (S-LoRA's adapter clustering: with d
// adapters in it, others wait), and under overload the newest requests with a deadline
// (early_abort.h).
//
// A request gets a credit each time a request that was due later is admitted (dLoRA's limit on the
// delay by clustering). With enough credits it is no longer overtaken by requests due later.
// Credits do not limit the order of tenants, which ensures fairness.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "scheduler/planning/queue/fair_share.h"

namespace tandem {

struct QueueChoices {
  bool by_priority = true;
  bool fair = false;
  std::int32_t adapter_clusters = 0;   // d: distinct adapters in a batch; 0: any number
  std::uint32_t max_passed_over = 64;  // credits after which a request is no longer overtaken
};

// A waiting request.
struct QueueEntry {
  std::int32_t priority = 0;  // lower goes first
  std::uint64_t arrival = 0;  // unique
  bool begun = false;
  bool has_deadline = false;
  std::uint64_t adapter = 0;            // a number per adapter; 0: the base model
  std::int64_t prompt_tokens = 0;       // prompt tokens still to compute
  FairShare::Tenant* tenant = nullptr;  // null: no tenant is charged
  std::uint32_t passed_over = 0;        // how often requests due later were admitted first
  std::uint32_t due = 0;                // set by arrange(): how many requests are due before it
};

// Not thread-safe; keeps no pointers to entries after a call, only its buffers.
class QueueOrder {
 public:
  explicit QueueOrder(const QueueChoices& choices) : choices_(choices) {}

  // Whether arrange() would keep a list sorted by priority and arrival, if no entry has begun.
  bool is_plain(bool overloaded) const {
    return !choices_.fair && choices_.adapter_clusters == 0 && !overloaded;
  }
  // The positions in `waiting` in the order of admission. `in_batch`: the distinct adapters of the
  // running requests. Valid until the next call. O(n log n).
  const std::vector<std::uint32_t>& arrange(std::span<QueueEntry* const> waiting,
                                            std::span<const std::uint64_t> in_batch,
                                            bool overloaded);

  // `admitted` was admitted before `waiting`; both as in the last arrange().
  static void count_passed_over(const QueueEntry& admitted, QueueEntry& waiting) {
    if (waiting.due < admitted.due) ++waiting.passed_over;
  }

 private:
  void let_pass(std::span<QueueEntry* const> waiting, std::size_t begin, std::size_t end,
                bool overloaded);
  void cluster(std::span<QueueEntry* const> waiting, std::size_t begin, std::size_t end);
  void take_turns(std::span<QueueEntry* const> waiting, std::size_t begin, std::size_t end);
  auto place(std::size_t i) { return places_.begin() + static_cast<std::ptrdiff_t>(i); }

  QueueChoices choices_;
  std::vector<std::uint32_t> places_;
  std::set<std::uint64_t> adapters_;  // of the batch and of the requests placed so far
};

}  // namespace tandem
