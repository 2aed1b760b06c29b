// Where the matrices of an adapter lie in its run of bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/status.h"
#include "engine/loader/adapter.h"

namespace tandem {

inline constexpr std::size_t kAdapterAlignment = 64;

// Gives module `module` of `layer` its place behind all those given before: call it by layer and
// then in the order of Module. Grows num_bytes, max_rank and modules; the bytes come after the
// last.
AdapterMatrix& append_matrix(Adapter& adapter, const ModelConfig& config, std::int64_t layer,
                             Module module, std::int64_t rank);

// Allocates num_bytes, not initialised; from the heap without `allocate`.
Status allocate_bytes(Adapter& adapter, const AllocateBytes& allocate = nullptr);

// Fills in the digest, from the layout and the bytes, which must all be written.
Status set_digest(Adapter& adapter);

}  // namespace tandem
