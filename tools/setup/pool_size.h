// How large the page pool is made: by a setting, or from the memory that there is.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "engine/loader/model_config.h"
#include "gpu/device.h"
#include "tools/cli/settings.h"

namespace tandem {

// Pages for sequences of up to `max_model_len` tokens. A failure says what is needed, by what, and
// which settings to change.
Result<std::int64_t> choose_pool_pages(const EngineSettings& settings, const ModelConfig& config,
                                       DType dtype, std::int64_t max_model_len,
                                       const Device& device);

}  // namespace tandem
