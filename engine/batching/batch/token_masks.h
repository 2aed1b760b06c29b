// Computes the masks of a step's samples, when the tokens of the step before are known.
#pragma once

#include <cstdint>
#include <span>

#include "engine/batching/batch/plan_builder.h"
#include "engine/constraint/mask_thread.h"

namespace tandem {

// Fills masks [.., words] of the entries that have one. A sequence that can have no further token
// gets an ending (Sequence::ending) instead of that token, and is sampled without a mask; so is one
// whose entry is stale. A sequence whose mask takes too long fails (MaskThread).
void fill_masks(std::span<const PlannedEntry> entries, std::int64_t words,
                std::span<std::uint32_t> masks, MaskThread& thread);

}  // namespace tandem
