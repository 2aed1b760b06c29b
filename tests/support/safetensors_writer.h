// Makes safetensors files for tests: valid ones, and broken ones by giving the header.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace tandem::testing {

// Joins the 8-byte length, the header and the data.
inline std::string safetensors_bytes(std::string_view header, std::string_view data) {
  std::string file;
  for (unsigned i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i) & 0xff);
  file += header;
  file += data;
  return file;
}

class SafetensorsWriter {
 public:
  // Adds the values, rounded to `dtype`; their number has to fit the shape.
  SafetensorsWriter& add(std::string_view name, DType dtype, const std::vector<std::int64_t>& shape,
                         const std::vector<float>& values) {
    std::string bytes(values.size() * size_of(dtype), '\0');
    convert(DType::f32, values.data(), dtype, bytes.data(), values.size());
    const std::string_view type = dtype == DType::f32   ? "F32"
                                  : dtype == DType::f16 ? "F16"
                                                        : "BF16";
    return add_raw(name, type, shape, bytes);
  }

  SafetensorsWriter& add_raw(std::string_view name, std::string_view type,
                             const std::vector<std::int64_t>& shape, std::string_view bytes) {
    header_ += fmt::format(R"({}"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                           header_.empty() ? "" : ",", name, type, fmt::join(shape, ","),
                           data_.size(), data_.size() + bytes.size());
    data_ += bytes;
    return *this;
  }

  // The header is padded, so that the data begins at a multiple of 8 bytes.
  std::string header() const {
    std::string text = fmt::format("{{{}}}", header_);
    text.resize((text.size() + 7) / 8 * 8, ' ');
    return text;
  }
  const std::string& data() const { return data_; }
  std::string bytes() const { return safetensors_bytes(header(), data_); }

 private:
  std::string header_;
  std::string data_;
};

}  // namespace tandem::testing
