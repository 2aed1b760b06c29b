// Fills the places of a layout with the numbers of a source.
#pragma once

#include <cstddef>
#include <functional>

#include "base/status.h"
#include "engine/loader/weights.h"
#include "engine/model/weights/weight_layout.h"
#include "gpu/device.h"

namespace tandem {

// Called as weights arrive, with the bytes of device memory filled so far and the total.
using LoadProgress = std::function<void(std::size_t done, std::size_t total)>;

// Reads all pieces of a layout, whose places are memory of the device; the CPU may write it if
// `host_visible`. `layout.bytes` is the total. Fails as the source does.
Status read_weights(const WeightSource& source, const WeightLayout& layout, bool host_visible,
                    Device& device, const LoadProgress& progress);

}  // namespace tandem
