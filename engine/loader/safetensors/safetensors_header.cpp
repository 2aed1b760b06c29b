#include "engine/loader/safetensors/safetensors_header.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/limits/bytes_text.h"
#include "engine/loader/safetensors/safetensors_json.h"

namespace tandem {
namespace {

constexpr std::uint64_t kLengthBytes = 8;
// The format allows 100 MB, which take ten seconds to parse. Real headers are below 10 MB.
constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{16} << 20;

// Returns the number of bytes of the shape; nothing on overflow or if it is not a whole number.
std::optional<std::uint64_t> data_size(const StorageType& type,
                                       const std::vector<std::int64_t>& shape) {
  std::uint64_t bits = type.bits;
  for (const std::int64_t size : shape) {
    if (__builtin_mul_overflow(bits, static_cast<std::uint64_t>(size), &bits)) return std::nullopt;
  }
  if (bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

// Checks that the tensors follow one another and fill the data, so that each byte belongs to
// exactly one of them.
Status check_places(const SafetensorsHeader::Tensors& tensors, std::uint64_t data_begin,
                    std::uint64_t data_bytes) {
  std::vector<const SafetensorsHeader::Tensors::value_type*> order;
  order.reserve(tensors.size());
  for (const auto& entry : tensors) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  std::uint64_t filled = data_begin;
  for (const auto* entry : order) {
    const auto& [name, info] = *entry;
    if (info.begin < filled) return invalid("tensor '{}' overlaps the one before it", name);
    if (info.begin > filled) {
      return invalid("there is a hole of {} bytes before tensor '{}'", info.begin - filled, name);
    }
    filled = info.end;
  }
  const std::uint64_t total = data_begin + data_bytes;
  if (filled != total) return invalid("{} bytes after the last tensor", total - filled);
  return {};
}

}  // namespace

Result<SafetensorsHeader> SafetensorsHeader::read(const File& file) {
  if (file.size() < kLengthBytes) {
    return invalid("{}: has {} bytes, too few for a safetensors file", file.path(), file.size());
  }
  std::array<unsigned char, kLengthBytes> raw{};
  TANDEM_TRY(file.read(0, raw.data(), raw.size()));
  std::uint64_t length = 0;
  for (std::size_t i = raw.size(); i-- > 0;) length = length << 8 | raw[i];
  if (length > kMaxHeaderBytes) {
    return invalid("{}: claims a header of {}, more than the {} allowed; is it a safetensors file?",
                   file.path(), size_text(length), size_text(kMaxHeaderBytes));
  }
  if (length > file.size() - kLengthBytes) {
    return invalid("{}: claims a header of {}, longer than the file", file.path(),
                   size_text(length));
  }
  std::string json(length, '\0');
  TANDEM_TRY(file.read(kLengthBytes, json.data(), json.size()));
  const std::uint64_t data_begin = kLengthBytes + length;
  Result<SafetensorsHeader> header = parse(json, data_begin, file.size() - data_begin);
  if (!header) return header.status().with_context(file.path());
  return header;
}

Result<SafetensorsHeader> SafetensorsHeader::parse(std::string_view json, std::uint64_t data_begin,
                                                   std::uint64_t data_bytes) {
  TANDEM_ASSIGN(std::vector<RawTensor> raw, parse_safetensors_json(json));
  SafetensorsHeader header;
  for (RawTensor& tensor : raw) {
    const std::optional<std::uint64_t> size = data_size(*tensor.type, tensor.shape);
    if (!size) {
      return invalid("tensor '{}' has an impossible shape [{}]", tensor.name,
                     fmt::join(tensor.shape, ", "));
    }
    if (tensor.begin > tensor.end || tensor.end > data_bytes) {
      return invalid("tensor '{}' claims bytes {} to {} of {}", tensor.name, tensor.begin,
                     tensor.end, data_bytes);
    }
    if (tensor.end - tensor.begin != *size) {
      return invalid("tensor '{}', {}[{}], has {} bytes, not {}", tensor.name, tensor.type->name,
                     fmt::join(tensor.shape, ", "), tensor.end - tensor.begin, *size);
    }
    TensorInfo info{tensor.type->name, tensor.type->dtype, std::move(tensor.shape),
                    data_begin + tensor.begin, data_begin + tensor.end};
    const auto [it, is_new] = header.tensors_.emplace(std::move(tensor.name), std::move(info));
    if (!is_new) return invalid("tensor '{}' is there twice", it->first);
  }
  TANDEM_TRY(check_places(header.tensors_, data_begin, data_bytes));
  return header;
}

const TensorInfo* SafetensorsHeader::find(std::string_view name) const {
  const auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : &it->second;
}

std::string to_string(const TensorInfo& info) {
  return fmt::format("{}[{}]", info.type_name, fmt::join(info.shape, ", "));
}

}  // namespace tandem
