#include "engine/loader/safetensors/safetensors_json.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace tandem {
namespace {

constexpr std::array<StorageType, 21> kTypes = {{
    {"F32", 32, DType::f32}, {"F16", 16, DType::f16}, {"BF16", 16, DType::bf16},
    {"I32", 32, DType::i32}, {"F64", 64, {}},         {"I64", 64, {}},
    {"U64", 64, {}},         {"U32", 32, {}},         {"C64", 64, {}},
    {"I16", 16, {}},         {"U16", 16, {}},         {"I8", 8, {}},
    {"U8", 8, {}},           {"BOOL", 8, {}},         {"F8_E4M3", 8, {}},
    {"F8_E5M2", 8, {}},      {"F8_E8M0", 8, {}},      {"F8_E4M3FNUZ", 8, {}},
    {"F6_E2M3", 6, {}},      {"F6_E3M2", 6, {}},      {"F4", 4, {}},
}};
constexpr std::size_t kMaxDimensions = 32;
constexpr std::size_t kMaxNameBytes = 1024;  // so that a message can contain a whole name

// Returns a possibly hostile name for a message: the first bytes of it, without non-ASCII
// characters.
std::string printable(std::string_view text) {
  std::string result(text.substr(0, 100));
  std::replace_if(
      result.begin(), result.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return result;
}

class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<RawTensor> tensors;
  std::string why;  // reason for the refusal

  bool start_object(std::size_t /*size*/) override {
    switch (place_) {
      case Place::before:
        place_ = Place::header;
        return true;
      case Place::metadata_value:
        place_ = Place::metadata;
        return true;
      case Place::tensor_value:
        place_ = Place::tensor;
        seen_ = {};
        return true;
      default:
        return refuse("an object where none belongs");
    }
  }

  bool end_object() override {
    if (place_ == Place::metadata) {
      place_ = Place::header;
    } else if (place_ == Place::tensor) {
      if (!seen_.type || !seen_.shape || !seen_.offsets) {
        return refuse("it lacks dtype, shape or data_offsets");
      }
      place_ = Place::header;
    } else {
      place_ = Place::after;
    }
    return true;
  }

  bool key(std::string& name) override {
    if (place_ == Place::header) {
      if (name == "__metadata__") {
        if (has_metadata_) return refuse("__metadata__ is there twice");
        has_metadata_ = true;
        place_ = Place::metadata_value;
        return true;
      }
      if (name.size() > kMaxNameBytes) return refuse("a tensor's name is too long");
      if (tensors.size() == kMaxTensors) {
        return refuse(fmt::format("it has more than {} tensors", kMaxTensors));
      }
      tensors.emplace_back().name = name;
      place_ = Place::tensor_value;
      return true;
    }
    if (place_ == Place::metadata) {
      place_ = Place::metadata_text;
      return true;
    }
    if (name == "dtype" && !std::exchange(seen_.type, true)) {
      place_ = Place::type;
    } else if (name == "shape" && !std::exchange(seen_.shape, true)) {
      place_ = Place::shape_value;
    } else if (name == "data_offsets" && !std::exchange(seen_.offsets, true)) {
      place_ = Place::offsets_value;
    } else {
      return refuse(fmt::format("'{}' is unknown or there twice", printable(name)));
    }
    return true;
  }

  bool string(std::string& text) override {
    if (place_ == Place::metadata_text) {
      place_ = Place::metadata;
      return true;
    }
    if (place_ != Place::type) return refuse("a text where none belongs");
    const auto* const type = std::find_if(kTypes.begin(), kTypes.end(),
                                          [&](const StorageType& t) { return t.name == text; });
    if (type == kTypes.end()) return refuse(fmt::format("unknown dtype '{}'", printable(text)));
    tensors.back().type = type;
    place_ = Place::tensor;
    return true;
  }

  bool start_array(std::size_t /*size*/) override {
    if (place_ == Place::shape_value) {
      place_ = Place::shape;
    } else if (place_ == Place::offsets_value) {
      place_ = Place::offsets;
      num_offsets_ = 0;
    } else {
      return refuse("an array where none belongs");
    }
    return true;
  }

  bool end_array() override {
    if (place_ == Place::offsets && num_offsets_ != 2) return refuse("data_offsets must be two");
    place_ = Place::tensor;
    return true;
  }

  bool number_unsigned(std::uint64_t value) override {
    if (place_ == Place::shape) {
      if (value > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
        return refuse("a dimension is out of range");
      }
      if (tensors.back().shape.size() == kMaxDimensions) return refuse("too many dimensions");
      tensors.back().shape.push_back(static_cast<std::int64_t>(value));
      return true;
    }
    if (place_ == Place::offsets && num_offsets_ < 2) {
      (num_offsets_++ == 0 ? tensors.back().begin : tensors.back().end) = value;
      return true;
    }
    return refuse("a number where none belongs");
  }

  bool number_integer(std::int64_t /*value*/) override { return refuse("a negative number"); }
  bool number_float(double /*value*/, const std::string& /*text*/) override {
    return refuse("a number that is not whole");
  }
  bool null() override { return refuse("a null"); }
  bool boolean(bool /*value*/) override { return refuse("a boolean"); }
  bool binary(nlohmann::json::binary_t& /*value*/) override { return refuse("binary data"); }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    if (why.empty()) why = fmt::format("the header is not JSON, from byte {}", position);
    return false;
  }

 private:
  enum class Place {
    before,
    header,
    metadata_value,
    metadata,
    metadata_text,
    tensor_value,
    tensor,
    type,
    shape_value,
    shape,
    offsets_value,
    offsets,
    after,
  };

  bool refuse(std::string_view reason) {
    const bool in_tensor = place_ >= Place::tensor_value && place_ != Place::after;
    why = in_tensor ? fmt::format("tensor '{}': {}", printable(tensors.back().name), reason)
                    : fmt::format("the header is not one of safetensors: {}", reason);
    return false;
  }

  struct Seen {
    bool type = false;
    bool shape = false;
    bool offsets = false;
  };

  Place place_ = Place::before;
  Seen seen_;
  int num_offsets_ = 0;
  bool has_metadata_ = false;
};

}  // namespace

Result<std::vector<RawTensor>> parse_safetensors_json(std::string_view json) {
  // The library takes a NUL for the end of the text and would ignore the rest.
  if (json.find('\0') != std::string_view::npos) return invalid("the header holds a NUL byte");
  HeaderReader reader;
  try {
    if (!nlohmann::json::sax_parse(json.begin(), json.end(), &reader))
      return invalid("{}", reader.why);
  } catch (const std::exception& e) {
    return invalid("the header is not JSON: {}", e.what());
  }
  return std::move(reader.tensors);
}

}  // namespace tandem
