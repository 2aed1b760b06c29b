// Moves streams to free an engine.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "base/log/log.h"
#include "scheduler/cluster/members/scale_hint.h"
#include "scheduler/cluster/router/router.h"

namespace tandem {
namespace {

constexpr Duration kLookAtMost = std::chrono::milliseconds(500);
constexpr Duration kLookAtLeast = std::chrono::milliseconds(20);
constexpr int kLooksInAfter = 4;

}  // namespace

void Router::look_soon() {
  if (!options_.consolidation.on) return;
  consolidation_.start(
      std::clamp(options_.consolidation.after / kLooksInAfter, kLookAtLeast, kLookAtMost));
}

void Router::consolidate() {
  look_soon();  // first, as the rest may return early
  std::vector<RoutedCall*> there;
  const auto streams_of = [&](EngineIndex engine) {
    there.clear();
    std::vector<MovableStream> streams;
    for (const auto& [pointer, call] : calls_) {
      if (call->progress().engine != engine || !call->can_move()) continue;
      there.push_back(call.get());
      streams.push_back(as_movable(*call));
    }
    return streams;
  };
  const Consolidation found = consolidator_.look(cluster_, num_waiting(), streams_of, now());
  metrics_.set(router_metrics::kResting, consolidator_.num_resting());
  if (found.rests.valid()) {
    log::info("{}: the engine is emptied by consolidation; {} streams continue at others",
              address_of(found.rests), found.moves.size());
    for (const StreamMove& each : found.moves) move(*there[each.stream], each);
    note_calls();
  }
}

MovableStream Router::as_movable(const RoutedCall& call) const {
  MovableStream stream;
  stream.wanted = wanted_elsewhere(call);
  stream.places = static_cast<std::int64_t>(call.call().choices);
  const auto moved = call.progress().moved_at;
  // A stream with a deadline for its first token does not move before that token: it would start at
  // the end of another queue with less time left.
  const bool in_time = call.num_tokens() > 0 || call.call().slo_ttft_s <= 0;
  stream.may_move = in_time && (!moved || now() - *moved >= options_.consolidation.again);
  return stream;
}

// Tokens already sent count as part of the prompt.
Wanted Router::wanted_elsewhere(const RoutedCall& call) const {
  Wanted wanted = call.wanted();
  const auto told = static_cast<std::int64_t>(call.num_tokens());
  wanted.prompt_tokens += told;
  wanted.expected_tokens = std::max(1.0, wanted.expected_tokens - static_cast<double>(told));
  return wanted;
}

void Router::move(RoutedCall& call, const StreamMove& to) {
  metrics_.count(router_metrics::kMoves, {{"engine", address_of(call.progress().engine)},
                                          {"start", to.cost.cold ? "cold" : "warm"}});
  leave_engine(call);
  if (!call.leave_for_another()) return;
  ++running_;
  call.go(to.to, cluster_.sent(to.to, wanted_elsewhere(call), now()));
}

// Chooses among the engines in use if one has room and has not just failed the request. If none of
// them can ever serve it, a resting engine does and keeps resting.
Choice Router::choose(Wanted& wanted, TimePoint at) {
  wanted.among = consolidator_.in_use(cluster_.engines().size());
  Choice choice = cluster_.choose(wanted, at);
  const bool all = wanted.among == nullptr;
  const bool fits = choice.kind == Choice::Kind::engine && choice.engine != wanted.avoid &&
                    !is_full(cluster_.view(choice.engine));
  const bool could = choice.kind == Choice::Kind::engine || choice.kind == Choice::Kind::wait;
  wanted.among = nullptr;
  if (all || fits) return choice;
  choice = cluster_.choose(wanted, at);
  if (could && choice.kind == Choice::Kind::engine) wake(choice.engine);
  return choice;
}

void Router::wake(EngineIndex engine) {
  consolidator_.wake(engine);
  metrics_.set(router_metrics::kResting, consolidator_.num_resting());
}

}  // namespace tandem
