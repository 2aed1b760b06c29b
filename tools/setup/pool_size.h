// Chooses the size of the page pool: from a setting, or from the available memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "engine/memory/pool_shape.h"
#include "engine/model/spec/model_spec.h"
#include "gpu/device.h"
#include "tools/settings/engine_settings.h"

namespace tandem {

// Pages for sequences of up to `max_model_len` tokens. An error says how much memory is needed,
// what for, and which settings to change; so it does if this pool, the weights and a host tier of
// `host_tier_bytes` exceed a container's memory limit.
Result<PoolShape> choose_pool(const EngineSettings& settings, const ModelSpec& spec, DType dtype,
                              std::int64_t max_model_len, const Device& device,
                              const WeightSource& source, std::size_t host_tier_bytes);

}  // namespace tandem
