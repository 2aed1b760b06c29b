// Limits on the work and memory of a rendering. One Budget is active on a thread during a
// rendering. All functions that traverse, compare, copy or create values charge it, and values
// charge it for every byte that they own through their allocator. So no construct of a template can
// do unlimited work, whichever function executes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "base/clock.h"

namespace tandem::jinja {

// A unit of work is about one byte read, copied or created; the constants below are for operations
// without bytes.
inline constexpr std::uint64_t kStepUnits = 32;  // a statement, an expression, a value visited
inline constexpr std::uint64_t kItemUnits = 8;   // a list item skipped

class Budget {
 public:
  struct Limits {
    std::uint64_t work_units = 5'000'000 * kStepUnits;  // about half a second
    std::uint64_t held_bytes = 64U << 20;               // of all values at any time
  };
  // Checked every few thousand steps. All members are optional.
  struct Watch {
    std::function<bool()> stopped;  // true: the thread is needed elsewhere
    std::function<TimePoint()> now;
    TimePoint deadline{};  // compared with `now`
  };
  // Activates a budget on this thread.
  class Scope;

  Budget(const Limits& limits, Watch watch) : limits_(limits), watch_(std::move(watch)) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  // Charge before the work is done. Throws Error if the budget is exhausted or the deadline has
  // passed, and Stopped if `stopped` returns true.
  void spend(std::uint64_t units) {
    spent_ += units;
    if (spent_ >= next_look_) look();
  }
  void hold(std::uint64_t bytes);
  void release(std::uint64_t bytes) noexcept { held_ -= bytes; }

  std::uint64_t spent() const { return spent_; }
  std::uint64_t held() const { return held_; }

  // The active budget of this thread; null outside of renderings.
  static Budget*& current() {
    thread_local Budget* budget = nullptr;
    return budget;
  }

 private:
  void look();

  const Limits limits_;
  const Watch watch_;
  std::uint64_t spent_ = 0;
  std::uint64_t held_ = 0;
  std::uint64_t next_look_ = 0;
};

class Budget::Scope {
 public:
  explicit Scope(Budget& budget) : outer_(std::exchange(current(), &budget)) {}
  ~Scope() { current() = outer_; }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Budget* outer_;
};

// Charges the active budget; without one it is free, as for a template's constants.
inline void spend(std::uint64_t units) {
  if (Budget* budget = Budget::current()) budget->spend(units);
}
inline void spend_steps(std::uint64_t steps) {
  spend(steps * kStepUnits);
}

// The allocator of all memory that values own: allocations are charged as work and as memory.
template <typename T>
struct Metered {
  using value_type = T;

  Metered() = default;
  template <typename U>
  Metered(const Metered<U>&) {}

  T* allocate(std::size_t n) {
    if (Budget* budget = Budget::current()) budget->hold(n * sizeof(T));
    return std::allocator<T>().allocate(n);
  }
  void deallocate(T* p, std::size_t n) noexcept {
    if (Budget* budget = Budget::current()) budget->release(n * sizeof(T));
    std::allocator<T>().deallocate(p, n);
  }
  template <typename U>
  bool operator==(const Metered<U>&) const {
    return true;
  }
};

using String = std::basic_string<char, std::char_traits<char>, Metered<char>>;
// A tree, because its lookups remain fast for hostile names, unlike those of hash tables.
template <typename T>
using Names = std::map<String, T, std::less<>, Metered<std::pair<const String, T>>>;

template <typename T, typename... Args>
std::shared_ptr<T> make_metered(Args&&... args) {
  return std::allocate_shared<T>(Metered<std::remove_const_t<T>>(), std::forward<Args>(args)...);
}

}  // namespace tandem::jinja
