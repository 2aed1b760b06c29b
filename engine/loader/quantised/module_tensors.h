// The tensors of one module of a checkpoint, as they are stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/loader/quantised/quantised_matrix.h"

namespace tandem {

// Row-major, little endian, at any address; as many bytes as type and shape say. Does not own.
struct StoredTensor {
  std::string_view type;  // as safetensors spell it
  std::span<const std::int64_t> shape;
  std::span<const std::byte> bytes;

  // The element at a flat index, which is not checked.
  template <typename T>
  T at(std::size_t index) const {
    T value;
    std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof value);
    return value;
  }
  std::int64_t elements() const;
};
std::string to_string(const StoredTensor& tensor);

class ModuleTensors {
 public:
  // Returns the tensor of this name, or nothing.
  using Find = std::function<std::optional<StoredTensor>(std::string_view name)>;

  ModuleTensors(std::string module, Find find)
      : module_(std::move(module)), find_(std::move(find)) {}

  const std::string& module() const { return module_; }

  // `suffix` follows the module's name: ".weight_scale".
  std::optional<StoredTensor> find(std::string_view suffix) const {
    return find_(module_ + std::string(suffix));
  }
  // Fails if there is no such tensor or it has another type than these; the message names it.
  Result<StoredTensor> required(std::string_view suffix,
                                std::initializer_list<std::string_view> types) const;

 private:
  std::string module_;
  Find find_;
};

// Fails unless the tensor has this shape. `suffix` is for the message.
Status check_shape(std::string_view suffix, const StoredTensor& tensor,
                   std::initializer_list<std::int64_t> shape);

// Fails unless the tensor is a matrix of at least one row and column.
Status check_matrix(std::string_view suffix, const StoredTensor& tensor);

// F32, F16, BF16 or, of exponents, U8. Fails for others.
Result<ScaleList::Type> scale_type(std::string_view suffix, const StoredTensor& tensor);

// Copies `count` scales: number i is element index(i) of the tensor, which is not checked. Fails if
// one is not finite.
template <typename Index>
Result<ScaleList> copy_scales(std::string_view suffix, const StoredTensor& tensor,
                              std::int64_t count, const Index& index) {
  TANDEM_ASSIGN(const ScaleList::Type type, scale_type(suffix, tensor));
  const std::size_t size = size_of(type);
  ScaleList scales{type, std::vector<std::byte>(static_cast<std::size_t>(count) * size)};
  for (std::int64_t i = 0; i < count; ++i) {
    const auto from = static_cast<std::size_t>(index(i));
    std::memcpy(scales.bytes.data() + static_cast<std::size_t>(i) * size,
                tensor.bytes.data() + from * size, size);
    const float scale = scales.at(static_cast<std::size_t>(i));
    // A NaN or an infinity less itself is not 0.
    if (scale - scale != 0) return invalid("'{}' holds {}, which is no scale", suffix, scale);
  }
  return scales;
}

}  // namespace tandem
