#include "engine/loader/quantised/module_tensors.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace tandem {

std::int64_t StoredTensor::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

std::string to_string(const StoredTensor& tensor) {
  return fmt::format("{}[{}]", tensor.type, fmt::join(tensor.shape, ", "));
}

Result<StoredTensor> ModuleTensors::required(std::string_view suffix,
                                             std::initializer_list<std::string_view> types) const {
  const std::optional<StoredTensor> tensor = find(suffix);
  if (!tensor) return invalid("'{}' is missing", suffix);
  if (std::ranges::find(types, tensor->type) != types.end()) return *tensor;
  return invalid("'{}' is {}, it must be of {}", suffix, to_string(*tensor),
                 fmt::join(types, " or "));
}

Status check_shape(std::string_view suffix, const StoredTensor& tensor,
                   std::initializer_list<std::int64_t> shape) {
  if (std::ranges::equal(tensor.shape, shape)) return {};
  return invalid("'{}' is {}, it must be [{}]", suffix, to_string(tensor), fmt::join(shape, ", "));
}

Status check_matrix(std::string_view suffix, const StoredTensor& tensor) {
  if (tensor.shape.size() == 2 && tensor.shape[0] > 0 && tensor.shape[1] > 0) return {};
  return invalid("'{}' is {}, it must be a matrix", suffix, to_string(tensor));
}

Result<ScaleList::Type> scale_type(std::string_view suffix, const StoredTensor& tensor) {
  if (tensor.type == "F32") return ScaleList::Type::f32;
  if (tensor.type == "F16") return ScaleList::Type::f16;
  if (tensor.type == "BF16") return ScaleList::Type::bf16;
  if (tensor.type == "U8" || tensor.type == "F8_E8M0") return ScaleList::Type::e8m0;
  return invalid("'{}' is {}, it must be of F32, F16 or BF16", suffix, to_string(tensor));
}

}  // namespace tandem
