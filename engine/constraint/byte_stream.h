// Serialization of values as consecutive bytes in this machine's representation, between two
// processes of one program. A reader trusts none of its input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tandem {

// True for types of which any bytes are a valid value, so that they can be copied as bytes.
// Excludes bool, whose only valid bytes are 0 and 1.
template <typename T>
inline constexpr bool kIsPlain =
    std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> && !std::is_same_v<T, bool>;

class ByteWriter {
 public:
  template <typename T>
  void plain(const T& value) {
    static_assert(kIsPlain<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(std::string_view text) {
    plain(static_cast<std::uint64_t>(text.size()));
    bytes_.append(text);
  }
  template <typename T>
  void plain_list(const std::vector<T>& values) {
    static_assert(kIsPlain<T>);
    plain(static_cast<std::uint64_t>(values.size()));
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }

  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// After a read beyond the end, all further reads return empty values. Check ok() at the end, and
// before a value is used as a count.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  template <typename T>
  T plain() {
    static_assert(kIsPlain<T>);
    T value{};
    const std::string_view bytes = take(sizeof value);
    if (ok_) std::memcpy(static_cast<void*>(&value), bytes.data(), sizeof value);
    return value;
  }
  // Reads a count of values; not ok if that many, of at least `bytes_each` bytes, exceed the
  // remaining input.
  std::size_t count(std::size_t bytes_each) {
    const auto count = plain<std::uint64_t>();
    if (count > rest_.size() / bytes_each) ok_ = false;
    return ok_ ? static_cast<std::size_t>(count) : 0;
  }
  std::string_view text() { return take(count(1)); }
  template <typename T>
  std::vector<T> plain_list() {
    std::vector<T> values(count(sizeof(T)));
    const std::string_view bytes = take(values.size() * sizeof(T));
    if (ok_ && !values.empty()) {
      std::memcpy(static_cast<void*>(values.data()), bytes.data(), bytes.size());
    }
    return values;
  }

  bool ok() const { return ok_; }
  // Everything was read successfully and nothing is left.
  bool is_at_end() const { return ok_ && rest_.empty(); }

 private:
  std::string_view take(std::size_t count) {
    if (count > rest_.size()) ok_ = false;
    if (!ok_) return {};
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace tandem
