// GGUF's blocks in the forms that devices compute with (gpu/weight_form.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/loader/gguf/gguf_types.h"
#include "gpu/weight.h"

namespace tandem {

// Returns nothing for the types whose blocks are one element.
std::optional<WeightForm> gguf_form(const GgufType& type);

// Writes one row of a matrix, `num_blocks` blocks at any address, of a type that has a form, to the
// arrays' first row. Values are kept to the bit. Thread-safe.
void pack_gguf_row(const GgufType& type, const std::byte* blocks, std::size_t num_blocks,
                   const PackedArrays& target);

}  // namespace tandem
