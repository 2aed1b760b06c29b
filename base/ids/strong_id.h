// Numbers that name things. Each kind of thing has a type of its own (a tag tells them apart), so
// that a page cannot be passed for a chunk, nor either for a count: nothing converts by itself.
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
  constexpr StrongId() = default;  // names nothing
  constexpr explicit StrongId(std::int32_t value) : value_(value) {}

  constexpr bool valid() const { return value_ >= 0; }
  constexpr std::int32_t value() const { return value_; }
  // The thing's place in an array that has one entry for each; requires valid().
  constexpr std::size_t index() const { return static_cast<std::size_t>(value_); }

  friend constexpr auto operator<=>(StrongId, StrongId) = default;  // NOLINT(*-nullptr)

 private:
  std::int32_t value_ = -1;
};

// An array of ids goes to the device as it is, where kernels read i32.
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
