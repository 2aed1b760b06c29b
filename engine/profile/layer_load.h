// What of an adapter's layers must travel and be computed, for the planner.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/loader/adapter.h"
#include "engine/model/spec/model_spec.h"
#include "scheduler/costs/cost_model.h"

namespace tandem {

// One layer of an adapter of one rank on `modules`, where so many devices share the model
// (loader/shard.h).
LayerLoad layer_load(const ModelSpec& config, DType dtype, std::int32_t rank,
                     const std::vector<Module>& modules, std::int32_t num_devices = 1);

// Every layer of an adapter as it is.
std::vector<LayerLoad> layer_loads(const ModelSpec& config, const Adapter& adapter,
                                   std::int32_t num_devices = 1);

}  // namespace tandem
