// How large the page pool is made: by a setting, or from the memory that there is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "engine/model/spec/model_spec.h"
#include "gpu/device.h"
#include "tools/cli/settings.h"

namespace tandem {

// Pages for sequences of up to `max_model_len` tokens. A failure says what is needed, by what, and
// which settings to change; also where this pool, the weights and a host tier of so many bytes are
// more than a container's memory holds.
Result<std::int64_t> choose_pool_pages(const EngineSettings& settings, const ModelSpec& config,
                                       DType dtype, std::int64_t max_model_len,
                                       const Device& device, std::size_t host_tier_bytes);

}  // namespace tandem
