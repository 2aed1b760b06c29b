// Warnings of engines whose weights differ from those of others by the same names.
#include <fmt/format.h>

#include "base/log/log.h"
#include "scheduler/cluster/members/cluster.h"

namespace tandem {

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
  const AdapterReport* first = nullptr;
  const EngineState* differs = nullptr;
  std::string other_digest;
  std::size_t count = 0;
  for (const AdapterReport& adapter : adapters) {
    if (adapter.digest.empty()) continue;
    const HeldAdapter* const before = models_.held(engine, adapter.name);
    const bool is_news = before == nullptr || before->digest != adapter.digest;
    if (!is_news && engines_[engine.index()].up) continue;
    const ClusterModel* const model = models_.find(adapter.name);
    if (model == nullptr) continue;
    for (const EngineIndex other : model->engines) {
      if (other == engine || !engines_[other.index()].up) continue;
      const HeldAdapter* const held = models_.held(other, adapter.name);
      if (held == nullptr || held->digest.empty() || held->digest == adapter.digest) continue;
      ++count;
      if (first != nullptr) break;
      first = &adapter;
      differs = &engines_[other.index()];
      other_digest = held->digest;
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
