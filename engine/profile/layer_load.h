// The bytes to transfer and the work to compute for each layer of an adapter, for the planner.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/loader/adapter.h"
#include "engine/model/spec/model_spec.h"
#include "scheduler/planning/costs/cost_model.h"

namespace tandem {

// Returns the load of one layer of an adapter of one rank on the modules of these names,
// which its first layer has, for a model that is shared
// by `num_devices` devices (loader/shard.h).
LayerLoad layer_load(const ModelSpec& spec, DType dtype, std::int32_t rank,
                     const std::vector<std::string_view>& modules, std::int32_t num_devices = 1);

// Returns the load of every layer of a real adapter.
std::vector<LayerLoad> layer_loads(const ModelSpec& spec, const Adapter& adapter,
                                   std::int32_t num_devices = 1);

}  // namespace tandem
