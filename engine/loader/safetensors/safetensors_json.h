// The grammar of a safetensors header; the numbers are checked elsewhere.
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

// Per file: ten times the number of tensors of the largest models that are served.
inline constexpr std::size_t kMaxTensors = 100'000;

// An element type of the format.
struct StorageType {
  std::string_view name;
  unsigned bits;               // per element; some types are smaller than a byte
  std::optional<DType> dtype;  // set if Tandem computes with it
};

struct RawTensor {
  std::string name;
  const StorageType* type = nullptr;  // points into a static table
  std::vector<std::int64_t> shape;    // no element is negative
  std::uint64_t begin = 0;            // data_offsets
  std::uint64_t end = 0;
};

// Parses {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ..., "__metadata__":
// {...}}, in the file's order, and refuses anything else. The parser is event-based and builds no
// tree, so a hostile header can neither cause deep recursion nor take many times its own size.
Result<std::vector<RawTensor>> parse_safetensors_json(std::string_view json);

}  // namespace tandem
