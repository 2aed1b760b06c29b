// An interface for holders of pages that are kept only until others need them: the prefix cache,
// idle adapters.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>

namespace tandem {

// The value of keeping an idle item. The pool reclaims the lowest first, whoever holds it, and
// among equals the least recently used. PoolClock::worth() computes it.
struct Worth {
  double seconds = 0;          // weighted time to restore each of its pages
  std::uint64_t last_use = 0;  // PoolClock::stamp()

  friend bool operator<(const Worth& a, const Worth& b) {
    return std::tie(a.seconds, a.last_use) < std::tie(b.seconds, b.last_use);
  }
};

// Called on the engine thread by the PagePool that it is registered with.
class Reclaimable {
 public:
  Reclaimable() = default;
  Reclaimable(const Reclaimable&) = delete;
  Reclaimable& operator=(const Reclaimable&) = delete;
  virtual ~Reclaimable() = default;

  // Returns the worth of the item that would be reclaimed first; nothing if there is none.
  virtual std::optional<Worth> least() const = 0;
  // Returns that item's pages to the pool at once. Requires least().
  virtual void reclaim_least() = 0;
  // Returns about how many pages it could free in total. An admission asks this before anything is
  // reclaimed.
  virtual std::int64_t reclaimable_pages() const = 0;
};

}  // namespace tandem
