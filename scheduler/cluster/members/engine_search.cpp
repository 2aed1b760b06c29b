#include "scheduler/cluster/members/engine_search.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "scheduler/cluster/policies/tandem_policy.h"

namespace tandem {
namespace {

// Stops beyond kMostAdaptersOfRequest.
std::vector<std::string> split_at_plus(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size() && parts.size() <= kMostAdaptersOfRequest;) {
    const std::size_t end = std::min(text.find('+', at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

}  // namespace

EngineSearch::EngineSearch(const Cluster& cluster, const Wanted& wanted)
    : cluster_(cluster), wanted_(wanted) {
  const ClusterModels& models = cluster.models();
  std::vector<std::string> several = wanted.adapters;
  if (several.empty()) {
    model_ = models.find(wanted.model);
    is_known_ = model_ != nullptr || wanted.model.empty();
    if (is_known_ || wanted.model.find('+') == std::string::npos) return;
    several = split_at_plus(wanted.model);
    if (several.size() > kMostAdaptersOfRequest) return;
  }
  std::vector<const ClusterModel*> found;
  for (const std::string& name : several) {
    const ClusterModel* const model = models.find(name);
    if (model == nullptr) return;
    found.push_back(model);
  }
  is_known_ = true;
  model_ = found.front();
  others_.assign(found.begin() + 1, found.end());
}

bool EngineSearch::serves_others(EngineIndex engine) const {
  return std::ranges::all_of(
      others_, [&](const ClusterModel* other) { return other->is_served_by(engine); });
}

// The digest of several adapters' sum is only known to engines, which refuse to continue an answer
// of another.
bool EngineSearch::has_weights(EngineIndex engine) const {
  if (!wanted_.weights) return true;
  const WeightsIdentity& weights = *wanted_.weights;
  if (!is_same_base(cluster_.engines()[engine.index()].report.base, weights.base)) return false;
  if (weights.adapter.empty() || !others_.empty() || !wanted_.adapters.empty()) return true;
  const HeldAdapter* const held = cluster_.models().held(engine, wanted_.model);
  if (held != nullptr) return held->digest == weights.adapter;
  return model_ != nullptr && model_->offered && model_->offered_digest == weights.adapter;
}

// An engine that has never reported may have the weights, and one that was set aside may come back
// with them. A draining engine is about to go.
bool EngineSearch::may_have_weights() const {
  for (std::size_t i = 0; i < cluster_.engines().size(); ++i) {
    const EngineState& state = cluster_.engines()[i];
    const EngineIndex engine(static_cast<std::int32_t>(i));
    if (state.gone || state.is_twin || (state.up && state.report.draining)) continue;
    if (!state.heard) return true;
    if (serves(engine) && has_weights(engine)) return true;
  }
  return false;
}

bool EngineSearch::may_be_back(TimePoint heard_since) const {
  if (!is_known()) return false;
  for (std::size_t i = 0; i < cluster_.engines().size(); ++i) {
    const EngineState& state = cluster_.engines()[i];
    const EngineIndex engine(static_cast<std::int32_t>(i));
    if (state.gone || state.is_twin || state.report.id.empty() || !state.report.view.accepts) {
      continue;
    }
    const bool recent = state.up ? state.doubted : state.reported_at >= heard_since;
    if (recent && serves(engine) && has_weights(engine)) return true;
  }
  return false;
}

bool EngineSearch::has_others_only() const {
  if (!wanted_.weights || !is_known()) return false;
  bool any = false;
  for (std::size_t i = 0; i < cluster_.engines().size(); ++i) {
    const EngineIndex engine(static_cast<std::int32_t>(i));
    if (!cluster_.view(engine).accepts || !serves(engine)) continue;
    if (has_weights(engine)) return false;
    any = true;
  }
  return any;
}

std::vector<EngineIndex> EngineSearch::others(EngineIndex chosen) const {
  struct Candidate {
    EngineIndex engine;
    AdapterTier tier = AdapterTier::absent;
    std::int64_t requests = 0;
  };
  if (!is_known()) return {};
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < cluster_.engines().size(); ++i) {
    const EngineIndex engine(static_cast<std::int32_t>(i));
    const EngineView& view = cluster_.view(engine);
    if (!view.accepts || !wanted_.allows(i) || engine == chosen || !serves(engine)) continue;
    candidates.push_back({engine, AdapterTier::absent, view.requests()});
  }
  if (model_ != nullptr && model_->adapter.valid()) {
    for (const AdapterHold& hold : cluster_.models().holds(*model_)) {
      const auto place = std::ranges::find(candidates, hold.engine, &Candidate::engine);
      if (place != candidates.end()) place->tier = hold.tier;
    }
  }
  std::ranges::stable_sort(candidates, [](const Candidate& a, const Candidate& b) {
    return std::tuple(b.tier, a.requests) < std::tuple(a.tier, b.requests);
  });
  std::vector<EngineIndex> engines;
  engines.reserve(candidates.size());
  for (const Candidate& candidate : candidates) engines.push_back(candidate.engine);
  return engines;
}

RouteRequest EngineSearch::request(TimePoint now) const {
  RouteRequest request;
  request.now_s = seconds_between(TimePoint{}, now);
  request.prompt_tokens = wanted_.prompt_tokens;
  request.expected_tokens = wanted_.expected_tokens;
  request.slo_ttft_s = wanted_.slo_ttft_s;
  request.slo_token_s = wanted_.slo_token_s;
  if (model_ != nullptr && model_->adapter.valid()) {
    request.adapter = model_->adapter;
    request.rank = model_->rank;
    request.adapter_bytes = model_->bytes;
    for (const ClusterModel* other : others_) {
      request.rank += other->rank;
      request.adapter_bytes += other->bytes;
    }
    request.holds = cluster_.models().holds(*model_);
  }
  return request;
}

std::optional<MoveCost> EngineSearch::move_cost(EngineIndex to, const EngineView& as,
                                                TimePoint now) const {
  if (!as.accepts || !is_known() || !serves(to) || !has_weights(to)) return std::nullopt;
  const RouteRequest request = this->request(now);
  const AdapterHold hold = request.hold_on(to);
  MoveCost cost;
  cost.cold = hold.tier != AdapterTier::resident && hold.tier != AdapterTier::loading;
  cost.pause_s = tandem_estimate(request, as, hold.tier, 0, hold.active_requests).ttft_s;
  cost.prefill = request.prefill();
  cost.kv_tokens = request.kv_tokens();
  cost.load_bytes = cost.cold ? request.adapter_bytes : 0;
  return cost;
}

}  // namespace tandem
