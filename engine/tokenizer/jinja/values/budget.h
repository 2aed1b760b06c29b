// What a rendering may take: work and memory. One Budget is in force on a thread for the time of a
// rendering; whatever walks, compares, copies or makes a value pays there, and values pay for every
// byte they hold through their allocator. So no construct of a template can do work for nothing,
// whichever function does it.
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

// A unit of work is about one byte looked at, copied or made; these are for what has no bytes.
inline constexpr std::uint64_t kStepUnits = 32;  // a statement, an expression, a value visited
inline constexpr std::uint64_t kItemUnits = 8;   // an item of a list passed by

class Budget {
 public:
  struct Limits {
    std::uint64_t work_units = 5'000'000 * kStepUnits;  // about half a second
    std::uint64_t held_bytes = 64U << 20;               // by all values at one time
  };
  // Asked every few thousand steps. All may be left empty.
  struct Watch {
    std::function<bool()> stopped;  // true: somebody wants this thread back
    std::function<TimePoint()> now;
    TimePoint deadline{};  // of `now`
  };
  // Puts a budget in force on this thread.
  class Scope;

  Budget(const Limits& limits, Watch watch) : limits_(limits), watch_(std::move(watch)) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  // Pay before doing. Throw Error when nothing is left, the deadline has passed, or somebody asks
  // for an end (then a Stopped).
  void spend(std::uint64_t units) {
    spent_ += units;
    if (spent_ >= next_look_) look();
  }
  void hold(std::uint64_t bytes);
  void release(std::uint64_t bytes) noexcept { held_ -= bytes; }

  std::uint64_t spent() const { return spent_; }
  std::uint64_t held() const { return held_; }

  // The one in force on this thread; null outside of renderings.
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

// From the budget in force; free of charge where there is none, as for a template's constants.
inline void spend(std::uint64_t units) {
  if (Budget* budget = Budget::current()) budget->spend(units);
}
inline void spend_steps(std::uint64_t steps) {
  spend(steps * kStepUnits);
}

// The allocator of all that values own: what is allocated is paid for, as work and as memory.
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
// A tree: its look-ups stay short whatever names a stranger chooses, which hash tables' do not.
template <typename T>
using Names = std::map<String, T, std::less<>, Metered<std::pair<const String, T>>>;

template <typename T, typename... Args>
std::shared_ptr<T> make_metered(Args&&... args) {
  return std::allocate_shared<T>(Metered<std::remove_const_t<T>>(), std::forward<Args>(args)...);
}

}  // namespace tandem::jinja
