// Locates an adapter's weights: at addresses, or in a pool's chunks (LoraPages in gpu/ops.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/host/context/context.h"
#include "gpu/ops.h"

namespace tandem::host {

// Bytes [begin, begin + count) of the data at `start`: an address, or an index in the slot's
// chunks. Adjacent chunks are read in place, others are copied together into `scratch`. Valid until
// the next call with the same scratch.
const std::byte* weights_at(const LoraPages& pages, std::int32_t slot, std::uint64_t start,
                            std::int64_t begin, std::int64_t count, AlignedBytes& scratch);

}  // namespace tandem::host
