#include "scheduler/cluster/members/cluster.h"

#include <algorithm>
#include <utility>

#include "scheduler/cluster/members/engine_search.h"

namespace tandem {
namespace {

// A report that arrives so long after a request was sent includes it: 20 ms between two reports,
// plus the round trip.
constexpr Duration kReportedAfter = std::chrono::milliseconds(40);

}  // namespace

Cluster::Cluster(std::unique_ptr<Policy> policy) : policy_(std::move(policy)) {}

EngineIndex Cluster::add(HttpAddress address) {
  const auto place = std::find_if(engines_.begin(), engines_.end(),
                                  [](const EngineState& engine) { return engine.gone; });
  const auto index = static_cast<std::size_t>(place - engines_.begin());
  if (place == engines_.end()) {
    engines_.emplace_back();
    views_.emplace_back();
    sent_.emplace_back();
  }
  engines_[index] = {};
  engines_[index].address = std::move(address);
  engines_[index].why_not = "it has not been heard of yet";
  sent_[index].clear();
  const EngineIndex engine(static_cast<std::int32_t>(index));
  refresh(engine);
  return engine;
}

void Cluster::remove(EngineIndex engine) {
  set_aside(engine, "it is gone");
  drop_all_adapters(engine);
  prefixes_.forget(engine);
  EngineState& state = engines_[engine.index()];
  if (!state.report.model.empty()) models_.drop_base(state.report.model, engine);
  state.gone = true;
}

Status Cluster::report(EngineIndex engine, EngineReport report, bool first, TimePoint now) {
  EngineState& state = engines_[engine.index()];
  state.heard = true;
  const auto twin = std::find_if(engines_.begin(), engines_.end(), [&](const EngineState& other) {
    return &other != &state && other.up && other.report.id == report.id;
  });
  state.is_twin = twin != engines_.end();
  if (state.is_twin) {
    return invalid(
        "two engines have the id {}: this one and {}; give each engine by one address, and each an "
        "id of its own",
        report.id, twin->address.text());
  }
  warn_of_other_base(engine, report);
  warn_of_other_adapters(engine, report.adapters);
  if (first) drop_all_adapters(engine);
  if (state.report.model != report.model) {
    if (!state.report.model.empty()) models_.drop_base(state.report.model, engine);
    models_.add_base(report.model, engine);
  }
  for (const std::string& name : report.removed) models_.drop(engine, name);
  for (const AdapterReport& adapter : report.adapters) models_.take(engine, adapter);
  report.adapters.clear();
  report.removed.clear();
  if (state.report.id != report.id) prefixes_.forget(engine);  // it was restarted
  prefixes_.set_room(engine, report.view.prefix_cache ? report.view.kv_tokens : 0);
  if (report.view.step_ends_s >= 0) report.view.step_ends_s += seconds_between(TimePoint{}, now);
  state.report = std::move(report);
  state.reported_at = now;
  state.up = true;
  state.doubted = false;
  state.why_not.clear();
  forget_sent(engine, now - kReportedAfter);
  refresh(engine);
  return {};
}

void Cluster::set_aside(EngineIndex engine, std::string why) {
  EngineState& state = engines_[engine.index()];
  state.up = false;
  state.heard = true;
  state.why_not = std::move(why);
  forget_sent(engine, TimePoint::max());
  models_.set_aside(engine);
  refresh(engine);
}

void Cluster::doubt(EngineIndex engine) {
  engines_[engine.index()].doubted = true;
  refresh(engine);
}

void Cluster::expect_adapter(EngineIndex engine, const std::string& address,
                             const std::string& name, bool loaded) {
  const EngineState& state = engines_[engine.index()];
  if (state.gone || !state.up || state.address.text() != address) return;
  const bool known = models_.held(engine, name) != nullptr;
  if (loaded && !known) {
    models_.take(engine, {.name = name, .rank = 0, .bytes = 0, .tier = AdapterTier::host});
  } else if (!loaded && known) {
    models_.drop(engine, name);
  }
}

void Cluster::drop_all_adapters(EngineIndex engine) {
  models_.drop_all(engine);
  // Sent requests that are not in a report yet still count.
  for (const auto& [id, sent] : sent_[engine.index()]) models_.add_active(sent.adapter, engine, 1);
}

void Cluster::forget_sent(EngineIndex engine, TimePoint sent_before) {
  SentRequests& sent = sent_[engine.index()];
  while (!sent.empty() && sent.begin()->second.at <= sent_before) {
    models_.add_active(sent.begin()->second.adapter, engine, -1);
    sent.erase(sent.begin());
  }
}

void Cluster::count(const Sent& sent, EngineView& view) {
  view.waiting.add(sent.prefill);
  view.waiting_rank_sum += sent.rank;
  view.kv_free_tokens -= sent.kv_tokens;
}

void Cluster::refresh(EngineIndex engine) {
  const EngineState& state = engines_[engine.index()];
  EngineView& view = views_[engine.index()];
  view = state.report.view;
  view.accepts = state.usable();
  for (const auto& [id, sent] : sent_[engine.index()]) count(sent, view);
}

Choice Cluster::choose(const Wanted& wanted, TimePoint now) {
  const EngineSearch search(*this, wanted);
  const ClusterModel* const model = search.model();
  if (!search.is_known()) {
    // An engine that has not reported yet may have the model.
    const bool all_known = std::all_of(engines_.begin(), engines_.end(), [](const auto& engine) {
      return engine.gone || engine.is_twin || !engine.report.id.empty();
    });
    if (!all_known || engines_.empty()) return {Choice::Kind::nobody, {}};
    return {wanted.weights ? Choice::Kind::changed : Choice::Kind::unknown, {}};
  }
  // Engines without the model are hidden from the policy: they do not accept during the call.
  masked_.clear();
  bool any = false;
  const auto mask = [&](std::size_t i) {
    masked_.emplace_back(static_cast<std::int32_t>(i));
    views_[i].accepts = false;
  };
  std::size_t listed = 0;
  for (std::size_t i = 0; i < views_.size(); ++i) {
    bool has = true;
    if (model != nullptr) {
      has = listed < model->engines.size() && model->engines[listed].index() == i;
      if (has) ++listed;
      has = has || model->offered;
    }
    if (!views_[i].accepts) continue;
    const EngineIndex engine(static_cast<std::int32_t>(i));
    has = has && search.serves_others(engine) && search.has_weights(engine);
    if (has && wanted.allows(i)) {
      any = any || static_cast<std::int32_t>(i) != wanted.avoid.value();
    } else {
      mask(i);
    }
  }
  // The engine to avoid is still better than none.
  if (wanted.avoid.valid() && views_[wanted.avoid.index()].accepts) {
    if (any || wanted.avoid_strictly) {
      mask(wanted.avoid.index());
    } else {
      any = true;
    }
  }
  Choice choice;
  if (any) {
    RouteRequest request = search.request(now);
    request.prefixes = prefixes_.find(wanted.prompt);
    const Decision decision = policy_->choose(request, views_);
    choice.kind = decision.chosen() ? Choice::Kind::engine : Choice::Kind::wait;
    choice.engine = decision.engine;
  }
  for (const EngineIndex engine : masked_) views_[engine.index()].accepts = true;
  if (!any && wanted.weights && !search.may_have_weights()) {
    choice.kind = Choice::Kind::changed;
  }
  return choice;
}

RouteReasons Cluster::reasons(const Wanted& wanted, EngineIndex chosen, bool others,
                              TimePoint now) {
  const EngineSearch search(*this, wanted);
  RouteRequest request = search.request(now);
  request.prefixes = prefixes_.find(wanted.prompt);
  RouteReasons reasons{.tier = request.hold_on(chosen).tier,
                       .estimate = policy_->explain(request, views_[chosen.index()], chosen),
                       .next = {}};
  for (std::size_t i = 0; others && reasons.estimate && i < views_.size(); ++i) {
    const EngineIndex engine(static_cast<std::int32_t>(i));
    if (engine == chosen || !views_[i].accepts || !wanted.allows(i)) continue;
    if (!search.serves(engine)) continue;
    const auto estimate = policy_->explain(request, views_[i], engine);
    if (!estimate || (reasons.next.valid() && estimate->cost_s >= reasons.next_cost_s)) continue;
    reasons.next = engine;
    reasons.next_cost_s = estimate->cost_s;
  }
  return reasons;
}

SentId Cluster::sent(EngineIndex engine, const Wanted& wanted, TimePoint now) {
  RouteRequest request = EngineSearch(*this, wanted).request(now);
  Sent one;
  one.kv_tokens = request.kv_tokens();
  // The cached part of the prompt delays no other request.
  const std::int64_t cached = prefixes_.sent(engine, wanted.prompt, one.kv_tokens);
  request.prompt_tokens = std::max<std::int64_t>(1, request.prompt_tokens - cached);
  one.adapter = request.adapter;
  one.rank = request.rank;
  one.prefill = request.prefill();
  one.at = now;
  models_.add_active(one.adapter, engine, 1);
  count(one, views_[engine.index()]);
  ++engines_[engine.index()].sent;
  const SentId id = next_sent_++;
  sent_[engine.index()].emplace(id, one);
  return id;
}

void Cluster::ended(EngineIndex engine, SentId id) {
  --engines_[engine.index()].sent;
  SentRequests& sent = sent_[engine.index()];
  const auto place = sent.find(id);
  if (place == sent.end()) return;  // already in a report, as its end will be
  models_.add_active(place->second.adapter, engine, -1);
  sent.erase(place);
  refresh(engine);
}

}  // namespace tandem
