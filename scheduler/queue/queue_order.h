// In which order waiting requests are admitted to the batch.
//
// Who is due first: by priority; of one priority those that have begun before (and were preempted),
// then by arrival, or, as chosen, tenants by turns (fair_share.h). Others may pass: requests whose
// adapters are in the batch already (S-LoRA's adapter clustering: with d adapters in it, others
// wait), and under overload the newest of those with a deadline (early_abort.h).
//
// Each admission of a request that was due later is a credit (dLoRA's way to bound what clustering
// makes others wait). Whoever has enough of them is passed by nobody who is due later: turns of
// tenants, which are a matter of justice, go on around it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "scheduler/queue/fair_share.h"

namespace tandem {

struct QueueChoices {
  bool by_priority = true;
  bool fair = false;
  std::int32_t adapter_clusters = 0;   // d: distinct adapters in a batch; 0: any number
  std::uint32_t max_passed_over = 64;  // credits; then nobody passes it any more
};

// What waits.
struct QueueEntry {
  std::int32_t priority = 0;  // lower goes first
  std::uint64_t arrival = 0;  // each has its own
  bool begun = false;
  bool has_deadline = false;
  std::uint64_t adapter = 0;            // any number for each adapter; 0: the base model
  std::int64_t prompt_tokens = 0;       // that it will compute
  FairShare::Tenant* tenant = nullptr;  // null: none is counted
  std::uint32_t passed_over = 0;        // by those that were due later
  std::uint32_t due = 0;                // arrange() tells: so many are due before it
};

// Not thread-safe; keeps nothing of what it is shown but room for it.
class QueueOrder {
 public:
  explicit QueueOrder(const QueueChoices& choices) : choices_(choices) {}

  // arrange() would leave what is sorted by priority and arrival as it is, if none has begun.
  bool is_plain(bool overloaded) const {
    return !choices_.fair && choices_.adapter_clusters == 0 && !overloaded;
  }
  // The places of `waiting` in the order of their admission. `in_batch`: distinct adapters of what
  // runs. Valid until the next call. O(n log n).
  const std::vector<std::uint32_t>& arrange(std::span<QueueEntry* const> waiting,
                                            std::span<const std::uint64_t> in_batch,
                                            bool overloaded);

  // `admitted` was let in before `waiting`, both as the last arrange() saw them.
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
  std::set<std::uint64_t> adapters_;  // of the batch, and of those placed so far
};

}  // namespace tandem
