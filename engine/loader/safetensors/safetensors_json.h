// The grammar of a safetensors header, before any sense is made of its numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"

namespace tandem {

// Of one file: ten times those of the largest models that are served.
inline constexpr std::size_t kMaxTensors = 100'000;

// An element type that the format knows.
struct StorageType {
  std::string_view name;
  unsigned bits;               // per element; some types are smaller than a byte
  std::optional<DType> dtype;  // when Tandem computes with it
};

struct RawTensor {
  std::string name;
  const StorageType* type = nullptr;  // of a static table
  std::vector<std::int64_t> shape;    // none negative
  std::uint64_t begin = 0;            // data_offsets
  std::uint64_t end = 0;
};

// {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ..., "__metadata__": {...}}
// in the file's order; nothing else is let through. Reads event by event without a tree, so a
// hostile header can neither nest nor take many times its own size.
Result<std::vector<RawTensor>> parse_safetensors_json(std::string_view json);

}  // namespace tandem
