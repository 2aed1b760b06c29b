// The waiting requests of a simulated engine, ordered and given up by the rules of a real engine
// (scheduler/planning/queue).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "scheduler/cluster/policies/rank_tally.h"
#include "scheduler/cluster/simulator/workload.h"
#include "scheduler/planning/costs/step_costs.h"
#include "scheduler/planning/queue/early_abort.h"
#include "scheduler/planning/queue/queue_order.h"

namespace tandem {

struct SimLineOptions {
  std::int32_t adapter_clusters = 0;  // distinct adapters in a batch; 0: no limit
  double ttft_deadline_s = 0;         // per request, which is given up if it would be late; 0: none
  bool newest_first = false;          // always, however long the others have waited
};

struct SimWaiting {
  SimRequest request;
  bool cold = false;  // its adapter was not resident when it arrived
  QueueEntry entry;
};

// The adapter's number in a QueueEntry.
inline std::uint64_t adapter_number(const SimRequest& request) {
  return static_cast<std::uint64_t>(request.adapter.value()) + 1;
}

// Not thread-safe.
class SimLine {
 public:
  explicit SimLine(const SimLineOptions& options);

  void add(const SimRequest& request, bool cold);
  // In the order of admission.
  const std::deque<SimWaiting>& list() const { return list_; }
  // Sorts the line. `in_batch`: the adapters of running requests, by adapter_number().
  void arrange(std::span<const std::uint64_t> in_batch);
  // Removes the request at this position of list() from the line, to run it.
  SimWaiting admit(std::size_t place);
  // Removes and returns the requests whose first tokens would come too late. Call it before each
  // step; `idle`: nothing runs. Valid until the next call.
  const std::vector<SimWaiting>& give_up_late(double now_s, bool idle);
  // Records the time from the first step of a request to its first token.
  void saw_prefill(double seconds, std::int64_t tokens) { abort_.saw_prefill(seconds, tokens); }

  // The load of all waiting requests.
  PrefillLoad load() const;
  std::int64_t rank_sum() const { return ranks_.sum(); }

 private:
  void forget(const SimRequest& request);

  SimLineOptions options_;
  QueueOrder order_;
  EarlyAbort abort_;
  std::deque<SimWaiting> list_;
  bool has_turns_ = false;  // list_ is not sorted by arrival alone
  std::uint64_t arrivals_ = 0;
  RankTally ranks_;
  PrefillLoad load_;  // without rank_max, which ranks_ provides
  std::vector<QueueEntry*> entries_;
  std::vector<SimWaiting> late_;
};

}  // namespace tandem
