// The bytes to transfer and the work to compute for each layer of an adapter, for the planner.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/loader/adapter.h"
#include "engine/model/spec/model_spec.h"
#include "scheduler/planning/costs/cost_model.h"

namespace tandem {

// Returns the load of one layer of an adapter of one rank on `modules`, for a model that is shared
// by `num_devices` devices (loader/shard.h).
LayerLoad layer_load(const ModelSpec& config, DType dtype, std::int32_t rank,
                     const std::vector<Module>& modules, std::int32_t num_devices = 1);

// Returns the load of every layer of a real adapter.
std::vector<LayerLoad> layer_loads(const ModelSpec& config, const Adapter& adapter,
                                   std::int32_t num_devices = 1);

}  // namespace tandem
