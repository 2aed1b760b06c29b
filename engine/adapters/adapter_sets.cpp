#include "engine/adapters/adapter_sets.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/adapters/adapter_reading.h"
#include "engine/adapters/adapter_strips.h"

namespace tandem {
namespace {

bool is_idle(const AdapterLease& set) {
  return set->running.load(std::memory_order_relaxed) == 0 &&
         set->waiting.load(std::memory_order_relaxed) == 0;
}

std::string name_of_set(const std::vector<ScaledAdapter>& adapters) {
  std::vector<AdapterPart> parts;
  parts.reserve(adapters.size());
  for (const auto& [adapter, scale] : adapters) parts.push_back({adapter->name(), scale});
  return name_of(parts);
}

}  // namespace

std::vector<SummedAdapter> parts_of_set(const std::vector<ScaledAdapter>& adapters) {
  std::vector<SummedAdapter> parts;
  parts.reserve(adapters.size());
  for (const auto& [adapter, scale] : adapters) {
    parts.push_back({adapter->name(), &adapter->contents(), scale});
  }
  return parts;
}

Result<AdapterLease> AdapterSets::find(std::span<const AdapterPart> parts, const Lookup& lookup,
                                       bool* changed) {
  if (parts.empty() || parts.size() > kMostAdapterParts) {
    return invalid("a request takes 1 to {} adapters, not {}", kMostAdapterParts, parts.size());
  }
  std::vector<ScaledAdapter> adapters;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& [name, scale] = parts[i];
    if (!std::isfinite(scale)) return invalid("the scale of adapter '{}' is not finite", name);
    if (std::ranges::find(parts.first(i), name, &AdapterPart::name) != parts.first(i).end()) {
      return invalid("adapter '{}' is given twice", name);
    }
    AdapterLease adapter = lookup(name);
    if (adapter == nullptr) {
      return error(StatusCode::not_found, "adapter '{}' is not loaded", name);
    }
    if (scale != 0) adapters.push_back({std::move(adapter), scale});
  }
  if (adapters.empty()) return AdapterLease();
  if (adapters.size() == 1 && adapters.front().scale == 1) return adapters.front().adapter;
  return find_or_make(std::move(adapters), changed);
}

Result<AdapterLease> AdapterSets::find_or_make(std::vector<ScaledAdapter> adapters, bool* changed) {
  // One order, as sums in others would differ in their roundings and be cached apart.
  std::ranges::sort(adapters, {}, [](const ScaledAdapter& each) { return each.adapter->name(); });
  const std::lock_guard lock(mutex_);
  for (const auto& [adapter, scale] : adapters) {  // forget_retired() may have been here before
    if (!adapter->retired()) continue;
    return error(StatusCode::not_found, "adapter '{}' is not loaded", adapter->name());
  }
  const auto known =
      std::ranges::find_if(sets_, [&](const AdapterLease& set) { return set->set() == adapters; });
  if (known != sets_.end()) {
    std::rotate(known, known + 1, sets_.end());
    return sets_.back();
  }
  TANDEM_ASSIGN(AdapterLease made, make(std::move(adapters)));
  for (auto at = sets_.begin(); at != sets_.end() && sets_.size() >= kMost;) {
    if (!is_idle(*at)) {
      ++at;
      continue;
    }
    (*at)->retire();
    at = sets_.erase(at);
    if (changed != nullptr) *changed = true;
  }
  sets_.push_back(made);
  return made;
}

Result<AdapterLease> AdapterSets::make(std::vector<ScaledAdapter> adapters) const {
  std::shared_ptr<const Tokenizer> tokenizer;
  for (const auto& [adapter, scale] : adapters) {
    if (adapter->tokenizer() == nullptr) continue;
    if (adapters.size() > 1) {
      return invalid("adapter '{}' has a tokenizer of its own, so it has no sum with others",
                     adapter->name());
    }
    tokenizer = adapter->tokenizer();
  }
  TANDEM_ASSIGN(Adapter sum, sum_layout(*spec_, parts_of_set(adapters), max_rank_));
  TANDEM_TRY(host_->check_size(AdapterReading::bytes_with_words(sum.num_bytes, sum.layers.size())));
  Adapter part = device_layout(sum, *spec_, num_devices_);
  std::string name = name_of_set(adapters);
  return std::make_shared<ServedAdapter>(std::move(name), std::move(sum), std::move(part),
                                         /*pinned=*/false, /*reloadable=*/true, host_,
                                         std::move(tokenizer), std::move(adapters));
}

void AdapterSets::forget_retired() {
  const std::lock_guard lock(mutex_);
  std::erase_if(sets_, [](const AdapterLease& set) {
    const bool gone = std::ranges::any_of(
        set->set(), [](const ScaledAdapter& each) { return each.adapter->retired(); });
    if (gone) set->retire();
    return gone;
  });
}

std::vector<AdapterLease> AdapterSets::list() const {
  const std::lock_guard lock(mutex_);
  return {sets_.begin(), sets_.end()};
}

}  // namespace tandem
