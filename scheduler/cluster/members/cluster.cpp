#include "scheduler/cluster/members/cluster.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace tandem {
namespace {

// A report that arrives so long after a request was sent includes it: 20 ms between two reports,
// plus the round trip.
constexpr Duration kReportedAfter = std::chrono::milliseconds(40);

double seconds(TimePoint time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

}  // namespace

Cluster::Cluster(std::unique_ptr<Policy> policy) : policy_(std::move(policy)) {}

EngineIndex Cluster::add(HttpAddress address) {
  const auto place = std::find_if(engines_.begin(), engines_.end(),
                                  [](const EngineState& engine) { return engine.gone; });
  const auto index = static_cast<std::size_t>(place - engines_.begin());
  if (place == engines_.end()) {
    engines_.emplace_back();
    views_.emplace_back();
    books_.emplace_back();
  }
  engines_[index] = {};
  engines_[index].address = std::move(address);
  engines_[index].why_not = "it has not been heard of yet";
  books_[index] = {};
  const EngineIndex engine(static_cast<std::int32_t>(index));
  refresh(engine);
  return engine;
}

void Cluster::remove(EngineIndex engine) {
  set_aside(engine, "it is gone");
  drop_all_adapters(engine);
  prefixes_.forget(engine);
  EngineState& state = engines_[engine.index()];
  if (!state.report.model.empty()) unlist(state.report.model, engine);
  state.gone = true;
}

void Cluster::set_offered(const std::vector<OfferedAdapter>& adapters) {
  for (auto& [name, known] : models_) {
    known.offered = false;
    known.offered_digest.clear();
  }
  for (const OfferedAdapter& adapter : adapters) {
    const auto base = models_.find(adapter.name);
    if (base != models_.end() && !base->second.adapter.valid()) continue;
    Model& known = model(adapter.name, true);
    known.offered = true;
    known.offered_digest = adapter.digest;
    if (known.engines.empty()) {  // otherwise engines report both
      known.rank = adapter.rank;
      known.bytes = adapter.bytes;
    }
  }
  for (auto at = models_.begin(); at != models_.end();) {
    at = is_unknown(at->second) ? forget(at) : std::next(at);
  }
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
    if (!state.report.model.empty()) unlist(state.report.model, engine);
    list(report.model, false, engine);
  }
  for (const std::string& name : report.removed) drop_adapter(engine, name);
  for (const AdapterReport& adapter : report.adapters) take_adapter(engine, adapter);
  report.adapters.clear();
  report.removed.clear();
  if (state.report.id != report.id) prefixes_.forget(engine);  // it was restarted
  prefixes_.set_room(engine, report.view.prefix_cache ? report.view.kv_tokens : 0);
  if (report.view.step_ends_s >= 0) report.view.step_ends_s += seconds(now);
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
  // Its adapters stay listed, so that the error for a request for one asks to retry, and does not
  // say that the model is unknown.
  index_.remove_engine(engine);
  for (auto& [name, held] : books_[engine.index()].adapters) {
    held = {.digest = std::move(held.digest)};
  }
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
  const bool known = books_[engine.index()].adapters.contains(name);
  if (loaded && !known) {
    take_adapter(engine, {.name = name, .rank = 0, .bytes = 0, .tier = AdapterTier::host});
  } else if (!loaded && known) {
    drop_adapter(engine, name);
  }
}

Cluster::Model& Cluster::model(const std::string& name, bool is_adapter) {
  Model& found = models_[name];
  if (is_adapter && !found.adapter.valid()) found.adapter = take_id(name);
  return found;
}

// A hash of the name, so that independent routers hash an adapter to the same engine.
ClusterAdapterId Cluster::take_id(const std::string& name) {
  std::uint64_t hash = name.size();
  for (const char c : name) hash = mix_hash(hash, static_cast<unsigned char>(c));
  auto id = static_cast<std::int32_t>(hash & 0x7fffffff);
  while (!taken_ids_.insert(id).second) {
    id = id == std::numeric_limits<std::int32_t>::max() ? 0 : id + 1;
  }
  return ClusterAdapterId(id);
}

void Cluster::list(const std::string& name, bool is_adapter, EngineIndex engine) {
  auto& engines = model(name, is_adapter).engines;
  const auto place = std::lower_bound(engines.begin(), engines.end(), engine);
  if (place == engines.end() || *place != engine) engines.insert(place, engine);
}

void Cluster::unlist(const std::string& name, EngineIndex engine) {
  const auto found = models_.find(name);
  if (found == models_.end()) return;
  std::erase(found->second.engines, engine);
  if (is_unknown(found->second)) forget(found);
}

Cluster::Models::iterator Cluster::forget(Models::iterator model) {
  taken_ids_.erase(model->second.adapter.value());
  return models_.erase(model);
}

void Cluster::take_adapter(EngineIndex engine, const AdapterReport& adapter) {
  Books& books = books_[engine.index()];
  const auto [place, added] = books.adapters.try_emplace(adapter.name);
  if (added) list(adapter.name, true, engine);
  Model& known = model(adapter.name, true);
  if (adapter.rank > 0) {
    known.rank = adapter.rank;
    known.bytes = adapter.bytes;
  }
  Held& held = place->second;
  index_.set_tier(known.adapter, engine, adapter.tier);
  index_.add_active(known.adapter, engine, adapter.active - held.active);
  held = {adapter.tier, adapter.active, adapter.pinned, adapter.digest};
}

void Cluster::drop_adapter(EngineIndex engine, const std::string& name) {
  Books& books = books_[engine.index()];
  const auto place = books.adapters.find(name);
  if (place == books.adapters.end()) return;
  const ClusterAdapterId adapter = model(name, true).adapter;
  index_.add_active(adapter, engine, -place->second.active);
  index_.set_tier(adapter, engine, AdapterTier::absent);
  books.adapters.erase(place);
  unlist(name, engine);
}

void Cluster::drop_all_adapters(EngineIndex engine) {
  Books& books = books_[engine.index()];
  for (const auto& [name, held] : books.adapters) unlist(name, engine);
  books.adapters.clear();
  index_.remove_engine(engine);
  // Sent requests that are not in a report yet still count.
  for (const auto& [id, sent] : books.sent) {
    if (sent.adapter.valid()) index_.add_active(sent.adapter, engine, 1);
  }
}

void Cluster::forget_sent(EngineIndex engine, TimePoint sent_before) {
  auto& sent = books_[engine.index()].sent;
  while (!sent.empty() && sent.begin()->second.at <= sent_before) {
    const ClusterAdapterId adapter = sent.begin()->second.adapter;
    if (adapter.valid()) index_.add_active(adapter, engine, -1);
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
  for (const auto& [id, sent] : books_[engine.index()].sent) count(sent, view);
}

RouteRequest Cluster::route_request(const Wanted& wanted, const Model* model, TimePoint now) const {
  RouteRequest request;
  request.now_s = seconds(now);
  request.prompt_tokens = wanted.prompt_tokens;
  request.expected_tokens = wanted.expected_tokens;
  request.slo_ttft_s = wanted.slo_ttft_s;
  request.slo_token_s = wanted.slo_token_s;
  if (model != nullptr && model->adapter.valid()) {
    request.adapter = model->adapter;
    request.rank = model->rank;
    request.adapter_bytes = model->bytes;
    request.holds = index_.holds(model->adapter);
  }
  return request;
}

Choice Cluster::choose(const Wanted& wanted, TimePoint now) {
  const auto found = models_.find(wanted.model);
  const Model* const model = found == models_.end() ? nullptr : &found->second;
  if (!wanted.model.empty() && model == nullptr) {
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
    has = has && has_weights(wanted, model, EngineIndex(static_cast<std::int32_t>(i)));
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
    RouteRequest request = route_request(wanted, model, now);
    request.prefixes = prefixes_.find(wanted.prompt);
    const Decision decision = policy_->choose(request, views_);
    choice.kind = decision.chosen() ? Choice::Kind::engine : Choice::Kind::wait;
    choice.engine = decision.engine;
  }
  for (const EngineIndex engine : masked_) views_[engine.index()].accepts = true;
  if (!any && wanted.weights && !may_have_weights(wanted, model)) {
    choice.kind = Choice::Kind::changed;
  }
  return choice;
}

SentId Cluster::sent(EngineIndex engine, const Wanted& wanted, TimePoint now) {
  const auto found = models_.find(wanted.model);
  RouteRequest request =
      route_request(wanted, found == models_.end() ? nullptr : &found->second, now);
  Sent one;
  one.kv_tokens = request.kv_tokens();
  // The cached part of the prompt delays no other request.
  const std::int64_t cached = prefixes_.sent(engine, wanted.prompt, one.kv_tokens);
  request.prompt_tokens = std::max<std::int64_t>(1, request.prompt_tokens - cached);
  one.adapter = request.adapter;
  one.rank = request.rank;
  one.prefill = request.prefill();
  one.at = now;
  if (one.adapter.valid()) index_.add_active(one.adapter, engine, 1);
  count(one, views_[engine.index()]);
  ++engines_[engine.index()].sent;
  const SentId id = next_sent_++;
  books_[engine.index()].sent.emplace(id, one);
  return id;
}

void Cluster::ended(EngineIndex engine, SentId id) {
  --engines_[engine.index()].sent;
  auto& sent = books_[engine.index()].sent;
  const auto place = sent.find(id);
  if (place == sent.end()) return;  // already in a report, as its end will be
  if (place->second.adapter.valid()) index_.add_active(place->second.adapter, engine, -1);
  sent.erase(place);
  refresh(engine);
}

}  // namespace tandem
