// The JSON header of a safetensors file: names, types, shapes and offsets of its tensors.
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
#include "base/file/file.h"
#include "base/status.h"

namespace tandem {

struct TensorInfo {
  std::string_view type_name;  // as spelled by the format, for example "BF16"
  std::optional<DType> dtype;  // empty if Tandem does not compute with the type
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // byte range [begin, end) of the file
  std::uint64_t end = 0;
};

// Reads and checks the header of `file`. Refuses, with the file and the tensor named: a length
// beyond the file or beyond 16 MB, more than kMaxTensors tensors, broken or unexpected JSON, a
// duplicate name, a type that the format does not have, a shape whose size overflows, offsets that
// do not fit the shape or the file, and data that overlaps or leaves holes. Memory and recursion
// are bounded by the size of the header.
class SafetensorsHeader {
 public:
  static Result<SafetensorsHeader> read(const File& file);
  // `data_begin` is the file offset of the data, `data_bytes` its size.
  static Result<SafetensorsHeader> parse(std::string_view json, std::uint64_t data_begin,
                                         std::uint64_t data_bytes);

  using Tensors = std::map<std::string, TensorInfo, std::less<>>;
  const Tensors& tensors() const { return tensors_; }
  // Null if there is no tensor of that name. Valid as long as this header, also after it is moved.
  const TensorInfo* find(std::string_view name) const;

 private:
  Tensors tensors_;
};

// Returns, for example, "BF16[16, 4096]".
std::string to_string(const TensorInfo& info);

}  // namespace tandem
