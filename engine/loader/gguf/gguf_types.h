// The element types of tensors in GGUF files, and their conversion to f32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/dtype.h"

namespace tandem {

// Elements are stored in blocks of `elements`, each of which takes `bytes`. A row of a tensor is
// whole blocks.
struct GgufType {
  std::string_view name;  // as in the format's documentation, for example "Q4_K"
  std::uint32_t id = 0;
  std::size_t elements = 1;
  std::size_t bytes = 0;
  std::optional<DType> dtype;  // set if a block is one element of this type
  // Converts `num_blocks` blocks at any address to f32, [num_blocks * elements]. The result is what
  // f32 arithmetic gives, without fused multiply-adds.
  void (*to_float)(const std::byte* blocks, std::size_t num_blocks, float* out) = nullptr;
};

// Returns null if Tandem does not read the type.
const GgufType* find_gguf_type(std::uint32_t id);

// The name of a type, also of common ones that Tandem does not read; of others, the number.
std::string name_of_gguf_type(std::uint32_t id);

}  // namespace tandem
