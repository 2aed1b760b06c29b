// Finds engines that have the wanted weights, though not now, or other weights of the same name.
#include <fmt/format.h>

#include <algorithm>

#include "base/log/log.h"
#include "scheduler/cluster/members/cluster.h"

namespace tandem {

// Uses the engine's last report, whether it is up or not. `model` null: any engine's base.
bool Cluster::serves(const Model* model, EngineIndex engine) const {
  return model == nullptr || model->offered || std::ranges::binary_search(model->engines, engine);
}

bool Cluster::has_weights(const Wanted& wanted, const Model* model, EngineIndex engine) const {
  if (!wanted.weights) return true;
  const WeightsIdentity& weights = *wanted.weights;
  if (!is_same_base(engines_[engine.index()].report.base, weights.base)) return false;
  if (weights.adapter.empty()) return true;
  const auto& adapters = books_[engine.index()].adapters;
  const auto held = adapters.find(wanted.model);
  if (held != adapters.end()) return held->second.digest == weights.adapter;
  return model != nullptr && model->offered && model->offered_digest == weights.adapter;
}

// An engine that has never reported may have the weights, and one that was set aside may come back
// with them. A draining engine is about to go.
bool Cluster::may_have_weights(const Wanted& wanted, const Model* model) const {
  for (std::size_t i = 0; i < engines_.size(); ++i) {
    const EngineState& state = engines_[i];
    const EngineIndex engine(static_cast<std::int32_t>(i));
    if (state.gone || state.is_twin || (state.up && state.report.draining)) continue;
    if (!state.heard) return true;
    if (serves(model, engine) && has_weights(wanted, model, engine)) return true;
  }
  return false;
}

bool Cluster::may_be_back(const Wanted& wanted, TimePoint heard_since) const {
  const auto found = models_.find(wanted.model);
  if (found == models_.end() && !wanted.model.empty()) return false;
  const Model* const model = found == models_.end() ? nullptr : &found->second;
  for (std::size_t i = 0; i < engines_.size(); ++i) {
    const EngineState& state = engines_[i];
    const EngineIndex engine(static_cast<std::int32_t>(i));
    if (state.gone || state.is_twin || state.report.id.empty() || !state.report.view.accepts) {
      continue;
    }
    const bool recent = state.up ? state.doubted : state.reported_at >= heard_since;
    if (recent && serves(model, engine) && has_weights(wanted, model, engine)) return true;
  }
  return false;
}

bool Cluster::has_others_only(const Wanted& wanted) const {
  const auto found = models_.find(wanted.model);
  if (!wanted.weights || (found == models_.end() && !wanted.model.empty())) return false;
  const Model* const model = found == models_.end() ? nullptr : &found->second;
  bool any = false;
  for (std::size_t i = 0; i < engines_.size(); ++i) {
    const EngineIndex engine(static_cast<std::int32_t>(i));
    if (!views_[i].accepts || !serves(model, engine)) continue;
    if (has_weights(wanted, model, engine)) return false;
    any = true;
  }
  return any;
}

// Called before the report is stored.
void Cluster::warn_of_other_base(EngineIndex engine, const EngineReport& report) const {
  const EngineState& state = engines_[engine.index()];
  if (report.base.empty() || (state.up && state.report.base == report.base)) return;
  for (const EngineState& other : engines_) {
    if (&other == &state || !other.up || other.report.model != report.model) continue;
    if (other.report.base.empty() || is_same_base(other.report.base, report.base)) continue;
    log::warning(
        "{}: its base '{}' differs from that of {}: other weights, tokenizer or config (identity "
        "{}, not {}). New requests go to both, but a stream of one cannot continue at the other; "
        "give all engines of one name the same files",
        state.address.text(), report.model, other.address.text(), report.base, other.report.base);
    return;
  }
}

// Warns once per report, which may have thousands of adapters. Called before the report is stored.
void Cluster::warn_of_other_adapters(EngineIndex engine,
                                     const std::vector<AdapterReport>& adapters) const {
  const auto& known = books_[engine.index()].adapters;
  const AdapterReport* first = nullptr;
  const EngineState* differs = nullptr;
  std::string other_digest;
  std::size_t count = 0;
  for (const AdapterReport& adapter : adapters) {
    if (adapter.digest.empty()) continue;
    const auto before = known.find(adapter.name);
    const bool is_news = before == known.end() || before->second.digest != adapter.digest;
    if (!is_news && engines_[engine.index()].up) continue;
    const auto model = models_.find(adapter.name);
    if (model == models_.end()) continue;
    for (const EngineIndex other : model->second.engines) {
      if (other == engine || !engines_[other.index()].up) continue;
      const auto& there = books_[other.index()].adapters;
      const auto held = there.find(adapter.name);
      if (held == there.end() || held->second.digest.empty()) continue;
      if (held->second.digest == adapter.digest) continue;
      ++count;
      if (first != nullptr) break;
      first = &adapter;
      differs = &engines_[other.index()];
      other_digest = held->second.digest;
      break;
    }
  }
  if (first == nullptr) return;
  log::warning(
      "{}: its adapter '{}' differs from that of {} (digest {}, not {}){}. New requests go to "
      "both, but a stream of one cannot continue at the other; load the same content everywhere",
      engines_[engine.index()].address.text(), first->name, differs->address.text(), first->digest,
      other_digest, count == 1 ? "" : fmt::format(", and so do {} others", count - 1));
}

}  // namespace tandem
