// One engine in simulated time: continuous batching, two adapter tiers, a link, a disk and CPU
// workers. The model in short (docs/simulate.md gives the reasons):
//
//   a step     = a row for each running request, and the whole prompts that begin in it, in
//                the line's order, as many as places, KV, adapters and step_tokens allow
//   the line   = ordered by arrival, or by the engine's options (sim_line.h)
//   its time   = StepCosts, plus the cost of its cold adapters
//   an adapter = fetched into the host tier if absent, then loaded to the device; one at a time on
//                disk and link; begins when the request arrives (on_demand: in its step)
//   KV         = reserved for prompt and answer when a request begins: no preemption
//   prefixes   = a prefix shared with an earlier prompt that the engine still has is not computed
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "scheduler/cluster/policies/adapter_index.h"
#include "scheduler/cluster/policies/rank_tally.h"
#include "scheduler/cluster/simulator/adapter_cache.h"
#include "scheduler/cluster/simulator/machine.h"
#include "scheduler/cluster/simulator/sim_line.h"
#include "scheduler/cluster/simulator/sim_prefix_cache.h"
#include "scheduler/cluster/simulator/workload.h"
#include "scheduler/cluster/view/engine_view.h"

namespace tandem {

// How requests with cold adapters are handled.
enum class SimColdStart {
  cached,      // every adapter is on every device: no cold start at all
  on_demand,   // the step that begins a request waits for its adapter (CaraServe's OnDmd)
  async,       // a request begins in the first step after its adapter has come (Punica)
  cpu_assist,  // it begins at once; workers compute until the adapter has come, if that is faster
};
Result<SimColdStart> parse_cold_start(std::string_view text);

struct SimEngineOptions {
  SimMachine machine;
  SimColdStart cold_start = SimColdStart::cpu_assist;
  bool mixed_steps = true;  // prompts and decode share a step; else prompts have their own steps
  double expected_answer = 58;  // tokens for which the view reserves KV
  SimLineOptions line;
};

// A future event on an engine.
struct EngineEvent {
  enum class What { step_end, fetched, loaded };
  double at_s = 0;
  What what = What::step_end;
  ClusterAdapterId adapter;
};

// A request that has ended. `given_up`: it never began.
struct ServedRequest {
  SimRequest request;
  double first_token_s = 0;
  double end_s = 0;
  bool cold = false;  // its adapter was not resident when it arrived
  bool given_up = false;
};

// Driven by one loop that returns its events at their times. Not thread-safe.
class SimEngine {
 public:
  using Schedule = std::function<void(const EngineEvent&)>;
  using Served = std::function<void(const ServedRequest&)>;

  // `index` receives the tiers of adapters; it outlives this.
  SimEngine(EngineIndex self, const SimEngineOptions& options, AdapterIndex& index,
            Schedule schedule, Served served);

  void submit(const SimRequest& request, double now_s);
  void handle(const EngineEvent& event, double now_s);
  // Updates the same view with the changes since the last call. Call it before each decision.
  void refresh_view(EngineView& view, double now_s);

  // Requests that have not begun.
  std::int64_t waiting() const { return std::ssize(line_.list()); }
  std::int64_t running() const {
    return std::ssize(beginning_) + static_cast<std::int64_t>(running_.size());
  }
  std::int64_t loads() const { return loads_; }
  std::int64_t fetches() const { return fetches_; }
  // Prompt tokens of requests that have begun: all, and those found in the prefix cache.
  std::int64_t prompt_tokens() const { return prompt_tokens_; }
  std::int64_t cached_tokens() const { return cached_tokens_; }

 private:
  struct Active {
    SimRequest request;
    double first_token_s = 0;
    std::int64_t last_row = 0;  // the decode step that produces its last token
    bool cold = false;          // when it arrived
    bool operator>(const Active& other) const { return last_row > other.last_row; }
  };
  enum class Readiness { not_yet, cold, resident };

  std::int64_t bytes_of(const SimRequest& request) const {
    return options_.machine.bytes_per_rank * request.rank;
  }
  static std::int64_t kv_of(const SimRequest& request) {
    return std::int64_t{request.prompt_tokens} + request.answer_tokens;
  }
  std::int64_t promised_kv_of(const SimRequest& request) const {
    return request.prompt_tokens + static_cast<std::int64_t>(options_.expected_answer);
  }
  // Prompt tokens without those in the prefix cache; at least the last one is computed.
  std::int32_t to_compute(const SimRequest& request) const {
    if (request.prefix_tokens == 0 || !prefixes_.has(request.prefix)) return request.prompt_tokens;
    return std::max(1, request.prompt_tokens - request.prefix_tokens);
  }
  // Begins the fetch or load that the adapter needs next, if none has begun.
  void bring(const SimRequest& request, double now_s);
  void begin_load(ClusterAdapterId adapter, std::int64_t bytes, double now_s);
  void fetched(ClusterAdapterId adapter, double now_s);
  void loaded(ClusterAdapterId adapter);
  Readiness readiness(const SimRequest& request, double now_s);
  bool fits(const SimRequest& request) const;
  void give_up_late(double now_s);
  void arrange_line();
  void begin_requests(double now_s);
  void start_step(double now_s);
  void end_step(double now_s);
  double cold_stall_s(double now_s) const;
  void finish(const Active& active, double now_s);

  EngineIndex self_;
  SimEngineOptions options_;
  AdapterIndex& index_;
  Schedule schedule_;
  Served served_;

  AdapterCache device_;
  AdapterCache host_;
  SimPrefixCache prefixes_;
  double link_free_s_ = 0;
  double disk_free_s_ = 0;
  std::vector<std::pair<ClusterAdapterId, double>> loading_;  // on the link, with the end time
  std::vector<std::pair<ClusterAdapterId, std::int64_t>> fetching_;  // bytes

  SimLine line_;
  std::vector<Active> beginning_;  // in the current step
  PrefillLoad beginning_load_;
  std::int64_t beginning_rank_sum_ = 0;
  std::int64_t beginning_context_ = 0;  // tokens of their prompts
  std::int64_t beginning_cold_ = 0;     // rank x tokens
  std::priority_queue<Active, std::vector<Active>, std::greater<>> running_;
  RankTally running_ranks_;
  // Requests of each adapter; used only with adapter clusters.
  std::map<std::uint64_t, std::int32_t> batch_;
  std::vector<std::uint64_t> in_batch_;
  std::int64_t context_tokens_ = 0;
  std::vector<std::pair<ClusterAdapterId, std::int32_t>>
      cold_rows_;                 // adapters being loaded that running requests use: rank
  std::int64_t kv_taken_ = 0;     // of running requests
  std::int64_t kv_promised_ = 0;  // as the view counts it, with waiting requests
  std::int64_t decode_steps_ = 0;
  double step_began_s_ = 0;
  double expected_end_s_ = 0;  // predicted end of the current step, without cold starts
  bool stepping_ = false;
  bool decoding_ = false;  // the current step has rows of requests that ran before
  bool changed_ = true;    // since the last refresh_view()
  std::int64_t loads_ = 0;
  std::int64_t fetches_ = 0;
  std::int64_t prompt_tokens_ = 0;
  std::int64_t cached_tokens_ = 0;
};

}  // namespace tandem
