// The router's reactions to changes of its engines.
#include <vector>

#include "scheduler/cluster/members/engine_news.h"
#include "scheduler/cluster/router/router.h"

namespace tandem {

// Calls on the lost engine go to others now, not when their own deadlines pass.
void Router::engine_lost(EngineIndex engine, const std::string& why) {
  std::vector<CallPointer> there;
  for (const auto& [pointer, call] : calls_) {
    if (call->progress().engine == engine) there.push_back(call);
  }
  for (const CallPointer& call : there) call->engine_lost(why);
}

void Router::engines_changed() {
  note_engines();
  if (!queue_.empty()) serve_queue();
}

EngineRun Router::run_of(EngineIndex engine) const {
  const EngineState& state = cluster_.engines()[engine.index()];
  return {engine, state.report.id, state.address.text(), now()};
}

bool Router::lives(const EngineRun& run) const {
  const EngineState& state = cluster_.engines()[run.engine.index()];
  return state.up && state.report.id == run.id && state.reported_at > run.lost_at;
}

void Router::note_engines() {
  const EngineCounts counts = count_engines(cluster_.engines());
  metrics_.set(router_metrics::kUp, counts.up);
  metrics_.set(router_metrics::kEngines, counts.all);
  ready_.store(counts.ready, std::memory_order_relaxed);
}

}  // namespace tandem
