#include "scheduler/cluster/picker/picker.h"

#include <algorithm>
#include <new>

#include "scheduler/cluster/members/engine_search.h"
#include "scheduler/cluster/picker/endpoint.h"
#include "scheduler/cluster/router/route_error.h"

namespace tandem {
namespace {

// Longer than a request needs to reach an engine and be in its report.
constexpr Duration kOnItsWay = std::chrono::milliseconds(100);

ErrorEnvelope engines_full() {
  return {429, "Every engine that serves this model is full", "engines_full", 1};
}

}  // namespace

Picker::Picker(std::unique_ptr<Policy> policy, PickLimits limits)
    : limits_(limits), cluster_(std::move(policy)) {}

void Picker::engine_added(EngineIndex engine) {
  if (endpoints_.size() <= engine.index()) endpoints_.resize(engine.index() + 1);
  endpoints_[engine.index()] = endpoint_text(cluster_.engines()[engine.index()].address);
}

void Picker::engine_gone(EngineIndex engine) {
  std::erase_if(running_, [&](const auto& one) { return one.second.engine == engine; });
  endpoints_[engine.index()].clear();
}

Pick Picker::pick(Wanted wanted, const std::optional<std::vector<std::string>>& subset,
                  TimePoint now) {
  settle(now);
  const std::size_t count = endpoints_.size();
  listed_.assign(count, true);
  roomy_.assign(count, true);
  for (std::size_t i = 0; i < count; ++i) {
    listed_[i] = !subset || std::ranges::find(*subset, endpoints_[i]) != subset->end();
    const EngineView& view = cluster_.view(EngineIndex(static_cast<std::int32_t>(i)));
    roomy_[i] = listed_[i] && view.waiting.requests < limits_.max_waiting;
  }
  wanted.among = &roomy_;
  const Choice choice = cluster_.choose(wanted, now);
  Pick pick;
  if (choice.kind != Choice::Kind::engine) {
    pick.refused = refusal_of(wanted, choice.kind);
    return pick;
  }
  pick.id = next_++;
  pick.endpoints = endpoints_[choice.engine.index()];
  // Full engines are still useful as fallbacks, but come last.
  wanted.among = &listed_;
  std::vector<EngineIndex> others = EngineSearch(cluster_, wanted).others(choice.engine);
  std::stable_partition(others.begin(), others.end(),
                        [&](EngineIndex other) { return roomy_[other.index()]; });
  if (others.size() > limits_.max_fallbacks) others.resize(limits_.max_fallbacks);
  for (const EngineIndex other : others) pick.endpoints += "," + endpoints_[other.index()];
  wanted.among = nullptr;
  const SentId sent = cluster_.sent(choice.engine, wanted, now);
  running_.emplace(pick.id, Running{choice.engine, sent, std::move(wanted)});
  return pick;
}

ErrorEnvelope Picker::refusal_of(const Wanted& wanted, Choice::Kind kind) {
  if (kind == Choice::Kind::wait) return engines_full();
  if (kind == Choice::Kind::unknown) return unknown_model(wanted.name());
  Wanted full = wanted;
  full.among = &listed_;
  return EngineSearch(cluster_, full).others(EngineIndex()).empty() ? nobody_accepts()
                                                                    : engines_full();
}

std::optional<EngineIndex> Picker::served(PickId id, std::string_view endpoint, TimePoint now) {
  const auto found = running_.find(id);
  if (found == running_.end()) return std::nullopt;
  Running& running = found->second;
  const auto place = std::ranges::find(endpoints_, endpoint);
  if (endpoint.empty() || place == endpoints_.end()) return std::nullopt;
  const EngineIndex there(static_cast<std::int32_t>(place - endpoints_.begin()));
  const EngineIndex first = running.engine;
  if (there == first) return std::nullopt;
  cluster_.ended(first, running.sent);
  cluster_.doubt(first);
  running.engine = there;
  running.sent = cluster_.sent(there, running.wanted, now);
  return first;
}

void Picker::over(PickId id, bool answered, TimePoint now) {
  if (answered) {
    end(id);
  } else if (running_.contains(id)) {
    try {
      due_.push_back({now + kOnItsWay, id});
    } catch (const std::bad_alloc&) {
      end(id);
    }
  }
}

void Picker::settle(TimePoint now) {
  while (!due_.empty() && due_.front().at <= now) {
    end(due_.front().id);
    due_.pop_front();
  }
}

void Picker::end(PickId id) {
  const auto found = running_.find(id);
  if (found == running_.end()) return;
  cluster_.ended(found->second.engine, found->second.sent);
  running_.erase(found);
}

}  // namespace tandem
