// The handover of a step's cold rows to CPU workers: the engine makes it when it enqueues the step,
// and Model::compute reads it.
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
// whose adapter has no module there are in neither mask. If both are empty, nothing is offered.
struct SiteHandoff {
  std::uint64_t cpu_groups = 0;
  std::uint64_t xa_groups = 0;
  // For each module of the site, the mask of the groups whose adapter has it in this layer
  // (OfferDescriptor).
  std::array<std::uint64_t, kMaxModulesOfSite> adapted = {};
  bool offered() const { return (cpu_groups | xa_groups) != 0; }
};

// The plan for one layer of a step.
struct LayerHandoff {
  std::array<SiteHandoff, kMaxSites> sites;  // those past the model's are empty
};

// The place of a projection in arrays over the offers of a step, for a model with `num_sites`
// (ModuleTable). Projections without an offer have a place, too.
constexpr std::size_t offer_at(std::size_t num_sites, std::size_t layer, std::size_t site) {
  return layer * num_sites + site;
}

// Pointers are to device memory unless noted otherwise. Each offer has its data at its place:
// OfferDescriptor [layers * sites], as many times, tickets [layers * sites][kMaxColdGroups].
struct StepHandoff {
  // OfferDescriptor, tickets and time of the first place. compute() fills in the rows and segments
  // of the step's StepInput. OfferDescriptor::sequence rises by one from offer to offer, in the
  // order of the layers and of their sites.
  HandoffJob job = {};
  LoraSegment* live = nullptr;           // as many as the step's segments
  std::uint32_t* timed_out = nullptr;    // [num_groups], zero before the step
  const std::uint32_t* ready = nullptr;  // [slots][layers + 1][kNumLoadParts]; the last: all
  bool whole_loads = false;        // a group's layers count as arrived only when all have arrived
  std::uint32_t* shown = nullptr;  // with several ranks (OfferArgs)
  std::uint32_t deadline_us = 0;
  std::span<const LayerHandoff> layers;  // host memory
};

// `handoff` null: the step hands nothing over.
inline bool is_offered(const StepHandoff* handoff, std::int64_t layer, Site site) {
  return handoff != nullptr && handoff->layers[static_cast<std::size_t>(layer)]
                                   .sites[static_cast<std::size_t>(site)]
                                   .offered();
}

}  // namespace tandem
