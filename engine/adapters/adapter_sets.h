// Sets of adapters that requests name together: each is an adapter of its own, the sum of theirs
// (adapter_sum.h), without a name that a request could ask for. Its bytes are summed when they are
// needed, as an adapter's folder is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/adapters/host_tier.h"
#include "engine/adapters/served_adapter.h"
#include "engine/loader/adapter_sum.h"
#include "engine/model/spec/model_spec.h"
#include "engine/service/generation.h"

namespace tandem {

// Thread-safe.
class AdapterSets {
 public:
  // When there are more, those that no request uses go, the one that was asked for longest ago
  // first.
  static constexpr std::size_t kMost = 64;

  // `max_rank` bounds the sum of the ranks. `spec` outlives it.
  AdapterSets(const ModelSpec& spec, std::int32_t max_rank, std::int32_t num_devices,
              std::shared_ptr<HostTier> host)
      : spec_(&spec), max_rank_(max_rank), num_devices_(num_devices), host_(std::move(host)) {}

  using Lookup = std::function<AdapterLease(const std::string& name)>;  // null: no such adapter
  // The set of these adapters with these scales, whatever their order, made if there is none yet;
  // the adapter itself if it is one with a scale of 1; null if no scale but 0 is left. `changed`,
  // if not null, is set if another set was retired for it. not_found names an adapter that is not
  // there. invalid_argument: they have no sum, or none that fits into the host tier.
  Result<AdapterLease> find(std::span<const AdapterPart> parts, const Lookup& lookup,
                            bool* changed = nullptr);

  // Retires the sets of adapters that are retired.
  void forget_retired();

  std::vector<AdapterLease> list() const;  // most recently used last

 private:
  Result<AdapterLease> find_or_make(std::vector<ScaledAdapter> adapters, bool* changed);
  Result<AdapterLease> make(std::vector<ScaledAdapter> adapters) const;

  const ModelSpec* spec_;
  const std::int32_t max_rank_;
  const std::int32_t num_devices_;
  const std::shared_ptr<HostTier> host_;
  mutable std::mutex mutex_;
  std::deque<AdapterLease> sets_;  // guarded by mutex_; most recently used last
};

// The parts as sum_layout() and sum_layer() take them, which refer to the adapters.
std::vector<SummedAdapter> parts_of_set(const std::vector<ScaledAdapter>& adapters);

}  // namespace tandem
