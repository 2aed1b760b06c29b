// The sum of the deltas of several adapters as one adapter. Its matrices are theirs side by side:
//   A = [A1; A2], B = [s1 B1 | s2 B2], so that B A x = s1 B1 A1 x + s2 B2 A2 x,
// and the bias is s1 b1 + s2 b2. Everything that computes one adapter computes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/loader/adapter.h"

namespace tandem {

// A part of a sum. Its adapter is one for the same model, in the same dtype.
struct SummedAdapter {
  std::string_view name;             // for messages
  const Adapter* adapter = nullptr;  // its bytes are not used
  float scale = 1;                   // finite, not 0
};

// Makes the layout of the sum, without bytes, of at least one part. The digest is a hash of the
// parts' digests and scales, in their order. invalid_argument names the adapters that have no sum:
// two that have the same module if it is a whole one of either, a whole one with a scale other than
// 1, ranks whose sum exceeds `max_rank`, and an activated LoRA, tokens of an adapter's own or a
// score head beside others.
Result<Adapter> sum_layout(const ModelSpec& spec, std::span<const SummedAdapter> parts,
                           std::int32_t max_rank);

// Writes the matrices of one layer of `sum`, which sum_layout() made of `parts`, to its place in
// `target`, the bytes of the whole sum. `bytes`: those of each part. A scaled value is rounded
// once; with scale 1 the bits of the part are copied. Pure: layers may be written concurrently.
void sum_layer(const ModelSpec& spec, const Adapter& sum, std::span<const SummedAdapter> parts,
               std::span<const std::byte* const> bytes, std::size_t layer, std::byte* target);

}  // namespace tandem
