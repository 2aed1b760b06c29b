// What a step must know to hand rows of cold adapters to CPU workers: made by the engine when it
// enqueues the step, read by Model::compute.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/loader/adapter.h"
#include "engine/model/step/step_batch.h"
#include "gpu/device.h"
#include "gpu/ops.h"

namespace tandem {

// The groups that a projection may hand over: masks over the step's groups, as in OfferArgs. Groups
// whose adapter has no module there are in neither. Both empty: it is not offered.
struct SiteHandoff {
  std::uint64_t cpu_groups = 0;
  std::uint64_t xa_groups = 0;
  bool offered() const { return (cpu_groups | xa_groups) != 0; }
};

// One layer of a step, as planned.
struct LayerHandoff {
  std::array<SiteHandoff, kNumSites> sites;
  // Masks over the groups whose adapter has the module in the layer (AcceptArgs).
  std::array<std::uint64_t, kNumModules> adapted = {};
};

// The place of a projection among the offers of a step, be it offered or not.
constexpr std::size_t offer_at(std::size_t layer, std::size_t site) {
  return layer * kNumSites + site;
}

// Pointers are to device memory unless they say otherwise. What an offer has of its own is at its
// place: turns [layers * kNumSites], times as many, tickets [layers * kNumSites][kMaxColdGroups].
struct StepHandoff {
  // Turn, tickets and time of the first place. Rows and segments are those of the step's StepInput:
  // compute() fills them in. The turns' sequence rises by one from offer to offer, in the order of
  // the layers and of their sites.
  HandoffJob job = {};
  LoraSegment* live = nullptr;           // as many as the step's segments
  std::uint32_t* timed_out = nullptr;    // [num_groups], zero before the step
  const std::uint32_t* ready = nullptr;  // [slots][layers + 1][kNumLoadParts]; the last: all of it
  bool whole_loads = false;        // a group's layers count as there only when all of them are
  std::uint32_t* shown = nullptr;  // of several ranks (OfferArgs)
  std::uint32_t deadline_us = 0;
  std::span<const LayerHandoff> layers;  // host memory
};

// Null: the step hands nothing over.
inline bool is_offered(const StepHandoff* handoff, std::int64_t layer, Site site) {
  return handoff != nullptr && handoff->layers[static_cast<std::size_t>(layer)]
                                   .sites[static_cast<std::size_t>(site)]
                                   .offered();
}

}  // namespace tandem
