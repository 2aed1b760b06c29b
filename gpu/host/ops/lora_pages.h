// Where an adapter's weights lie: at addresses, or in chunks of a pool (LoraPages in gpu/ops.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/host/context/context.h"
#include "gpu/ops.h"

namespace tandem::host {

// Bytes [begin, begin + count) of what starts at `start`: an address, or a place in the slot's
// chunks. Read in place where the chunks are neighbours, else copied together into `scratch`. Good
// until the next call with the same scratch.
const std::byte* weights_at(const LoraPages& pages, std::int32_t slot, std::uint64_t start,
                            std::int64_t begin, std::int64_t count, AlignedBytes& scratch);

}  // namespace tandem::host
