// The requests that wait in a simulated engine: in the order, and given up, by the rules of a real
// engine's line (scheduler/queue).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "scheduler/costs/step_costs.h"
#include "scheduler/policies/rank_tally.h"
#include "scheduler/queue/early_abort.h"
#include "scheduler/queue/queue_order.h"
#include "scheduler/simulator/workload.h"

namespace tandem {

struct SimLineOptions {
  std::int32_t adapter_clusters = 0;  // distinct adapters in a batch; 0: any number
  double ttft_deadline_s = 0;         // of each request: else it is given up; 0: none
};

struct SimWaiting {
  SimRequest request;
  bool cold = false;  // its adapter was not resident when it came
  QueueEntry entry;
};

// How the rules name an adapter.
inline std::uint64_t adapter_number(const SimRequest& request) {
  return static_cast<std::uint64_t>(request.adapter.value()) + 1;
}

// Not thread-safe.
class SimLine {
 public:
  explicit SimLine(const SimLineOptions& options)
      : options_(options), order_({.adapter_clusters = options.adapter_clusters}) {}

  void add(const SimRequest& request, bool cold);
  // First in line first.
  const std::deque<SimWaiting>& list() const { return list_; }
  // Puts the line into the order of now. `in_batch`: of what runs, by adapter_number().
  void arrange(std::span<const std::uint64_t> in_batch);
  // Out of the line to run, from its place in list().
  SimWaiting admit(std::size_t place);
  // Out of the line, as their first tokens would come too late. Before each step; `idle`: nothing
  // runs. Valid until the next call.
  const std::vector<SimWaiting>& give_up_late(double now_s, bool idle);
  // A first token has come so long after its request's first step began.
  void saw_prefill(double seconds, std::int64_t tokens) { abort_.saw_prefill(seconds, tokens); }

  // All that wait.
  PrefillLoad load() const;
  std::int64_t rank_sum() const { return ranks_.sum(); }

 private:
  void forget(const SimRequest& request);

  SimLineOptions options_;
  QueueOrder order_;
  EarlyAbort abort_;
  std::deque<SimWaiting> list_;
  bool has_turns_ = false;  // list_ is not by arrival alone
  std::uint64_t arrivals_ = 0;
  RankTally ranks_;
  PrefillLoad load_;  // without rank_max, which is the tally's
  std::vector<QueueEntry*> entries_;
  std::vector<SimWaiting> late_;
};

}  // namespace tandem
