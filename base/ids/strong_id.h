// Typed numeric ids. Each kind of object has its own type (distinguished by a tag), so that a page
// id cannot be passed for a chunk id, or either for a count: there are no implicit conversions.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>

namespace tandem {

template <typename Tag>
class StrongId {
 public:
  constexpr StrongId() = default;  // identifies nothing
  constexpr explicit StrongId(std::int32_t value) : value_(value) {}

  constexpr bool valid() const { return value_ >= 0; }
  constexpr std::int32_t value() const { return value_; }
  // The index in an array with one entry per object; requires valid().
  constexpr std::size_t index() const { return static_cast<std::size_t>(value_); }

  friend constexpr auto operator<=>(StrongId, StrongId) = default;  // NOLINT(*-nullptr)

 private:
  std::int32_t value_ = -1;
};

// An array of ids is copied to the device unchanged, where kernels read i32.
namespace strong_id_layout {
using Any = StrongId<struct AnyTag>;
static_assert(sizeof(Any) == sizeof(std::int32_t) && alignof(Any) == alignof(std::int32_t));
static_assert(std::is_trivially_copyable_v<Any> && std::is_standard_layout_v<Any>);
}  // namespace strong_id_layout

}  // namespace tandem

template <typename Tag>
struct std::hash<tandem::StrongId<Tag>> {
  std::size_t operator()(tandem::StrongId<Tag> id) const noexcept {
    return std::hash<std::int32_t>()(id.value());
  }
};
