// Makes GGUF files for tests: valid ones, and broken ones by giving numbers that do not fit.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::testing {

class GgufWriter {
 public:
  enum Kind : std::uint32_t { u32 = 4, i32 = 5, f32 = 6, flag = 7, text = 8, list = 9, u64 = 10 };

  template <typename T>
  static std::string raw(T value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
  }
  static std::string raw_text(std::string_view value) {
    return raw<std::uint64_t>(value.size()) + std::string(value);
  }

  // Any entry: its kind, and the bytes behind that.
  GgufWriter& add_raw(std::string_view key, std::uint32_t kind, std::string_view bytes) {
    metadata_ += raw_text(key) + raw(kind) + std::string(bytes);
    ++entries_;
    return *this;
  }
  GgufWriter& add(std::string_view key, std::uint32_t value) {
    return add_raw(key, u32, raw(value));
  }
  GgufWriter& add(std::string_view key, float value) { return add_raw(key, f32, raw(value)); }
  GgufWriter& add(std::string_view key, bool value) {
    return add_raw(key, flag, std::string(1, value ? '\1' : '\0'));
  }
  GgufWriter& add(std::string_view key, std::string_view value) {
    return add_raw(key, text, raw_text(value));
  }
  GgufWriter& add(std::string_view key, const char* value) {
    return add(key, std::string_view(value));
  }
  GgufWriter& add(std::string_view key, const std::vector<std::string>& values) {
    std::string bytes = raw<std::uint32_t>(text) + raw<std::uint64_t>(values.size());
    for (const std::string& value : values) bytes += raw_text(value);
    return add_raw(key, list, bytes);
  }
  GgufWriter& add(std::string_view key, const std::vector<std::int32_t>& values) {
    return add_list(key, i32, values);
  }
  GgufWriter& add(std::string_view key, const std::vector<float>& values) {
    return add_list(key, f32, values);
  }

  // `shape`: slowest dimension first. `type`: as in find_gguf_type().
  GgufWriter& add_tensor(std::string_view name, const std::vector<std::int64_t>& shape,
                         std::uint32_t type, std::string_view bytes) {
    add_tensor_at(name, shape, type, data_.size());
    data_ += bytes;
    data_.resize((data_.size() + kAlignment - 1) / kAlignment * kAlignment, '\0');
    return *this;
  }
  GgufWriter& add_tensor(std::string_view name, const std::vector<std::int64_t>& shape,
                         const std::vector<float>& values) {
    return add_tensor(
        name, shape, 0,
        {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  }
  // A tensor without data of its own.
  GgufWriter& add_tensor_at(std::string_view name, const std::vector<std::int64_t>& shape,
                            std::uint32_t type, std::uint64_t offset) {
    tensors_ += raw_text(name) + raw(static_cast<std::uint32_t>(shape.size()));
    for (std::size_t i = shape.size(); i-- > 0;) tensors_ += raw(shape[i]);
    tensors_ += raw(type) + raw(offset);
    ++num_tensors_;
    return *this;
  }

  std::string bytes(std::uint32_t version = 3) const {
    std::string file = "GGUF" + raw(version) + raw(num_tensors_) + raw(entries_);
    file += metadata_ + tensors_;
    file.resize((file.size() + kAlignment - 1) / kAlignment * kAlignment, '\0');
    return file + data_;
  }

 private:
  static constexpr std::size_t kAlignment = 32;

  template <typename T>
  GgufWriter& add_list(std::string_view key, Kind kind, const std::vector<T>& values) {
    std::string bytes = raw<std::uint32_t>(kind) + raw<std::uint64_t>(values.size());
    for (const T value : values) bytes += raw(value);
    return add_raw(key, list, bytes);
  }

  std::string metadata_, tensors_, data_;
  std::uint64_t entries_ = 0, num_tensors_ = 0;
};

}  // namespace tandem::testing
