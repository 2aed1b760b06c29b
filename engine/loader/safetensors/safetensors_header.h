// The JSON header of a safetensors file: names, types, shapes and places of its tensors.
//
//   8 bytes: header length n, little endian | n bytes: JSON | tensor data to the end of the file
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/file.h"
#include "base/status.h"

namespace tandem {

struct TensorInfo {
  std::string_view type_name;  // "BF16", as the format spells it
  std::optional<DType> dtype;  // empty: a type of the format that Tandem does not compute with
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // bytes [begin, end) of the file
  std::uint64_t end = 0;
};

// Reads and checks the header of `file`. Refuses, with the file and the tensor named: a length
// beyond the file or beyond 16 MB, more than kMaxTensors tensors, broken or foreign JSON, a name
// twice, a type that the format does not have, a shape whose size overflows, offsets that do not
// fit the shape or the file, and data that overlaps or leaves holes. Memory and recursion stay in
// proportion to the header.
class SafetensorsHeader {
 public:
  static Result<SafetensorsHeader> read(const File& file);
  // `data_begin` is where the data starts in the file, `data_bytes` how much of it there is.
  static Result<SafetensorsHeader> parse(std::string_view json, std::uint64_t data_begin,
                                         std::uint64_t data_bytes);

  using Tensors = std::map<std::string, TensorInfo, std::less<>>;
  const Tensors& tensors() const { return tensors_; }
  // Null when there is none of that name. Lives as long as this header (moves included).
  const TensorInfo* find(std::string_view name) const;

 private:
  Tensors tensors_;
};

// "BF16[16, 4096]"
std::string to_string(const TensorInfo& info);

}  // namespace tandem
