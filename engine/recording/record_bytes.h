// Encoding of a recording's records (recording.h), and decoding of untrusted bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/status.h"

namespace tandem {

enum class RecordKind : std::uint32_t { settings = 1, adapter, plan, result, end, masks };

struct RecordingHeader {
  static constexpr std::uint32_t kVersion = 6;
  char magic[8] = {'T', 'A', 'N', 'D', 'E', 'M', 'S', 'T'};
  std::uint32_t version = kVersion;
  std::uint32_t zero = 0;
};
static_assert(sizeof(RecordingHeader) == 16);

struct RecordHeader {
  std::uint32_t kind = 0;  // a RecordKind
  std::uint32_t zero = 0;
  std::uint64_t bytes = 0;
  std::uint64_t check = 0;
};
static_assert(sizeof(RecordHeader) == 24);

// FNV-1a. It protects against damage, not against forgery.
constexpr std::uint64_t check_of(std::string_view payload) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char byte : payload) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3ULL;
  }
  return hash;
}

class RecordBytes {
 public:
  template <typename T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T> && std::has_unique_object_representations_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  template <typename T>
  void put_list(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    put(static_cast<std::uint64_t>(values.size()));
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  }
  void put_text(std::string_view text) { put_list(std::span<const char>(text)); }

  void clear() { bytes_.clear(); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Reads fields in the order in which they were written. After the first failure nothing more is
// read.
class RecordCursor {
 public:
  explicit RecordCursor(std::string_view bytes) : rest_(bytes) {}

  template <typename T>
  void take(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (sizeof value > rest_.size()) return fail();
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
  }
  template <typename T>
  void take_list(std::vector<T>& values) {
    std::uint64_t count = 0;
    take(count);
    if (failed_ || count > rest_.size() / sizeof(T)) return fail();
    values.resize(static_cast<std::size_t>(count));
    if (count > 0) std::memcpy(values.data(), rest_.data(), count * sizeof(T));
    rest_.remove_prefix(count * sizeof(T));
  }
  void take_text(std::string& text) {
    std::vector<char> bytes;
    take_list(bytes);
    text.assign(bytes.begin(), bytes.end());
  }

  // Ok if everything was there and no bytes are left.
  Status end() const {
    if (failed_) return Status(StatusCode::invalid_argument, "it ends too early");
    if (!rest_.empty()) return invalid("{} bytes are left over", rest_.size());
    return {};
  }

 private:
  void fail() {
    failed_ = true;
    rest_ = {};
  }

  std::string_view rest_;
  bool failed_ = false;
};

}  // namespace tandem
