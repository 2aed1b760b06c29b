// Who holds pages only because nobody else wants them: the prefix cache, idle adapters.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>

namespace tandem {

// How much there is to say for keeping something that is idle: what is worth least goes first,
// whoever holds it, and of equals what was used longest ago. PoolClock::worth() makes it.
struct Worth {
  double seconds = 0;          // each page of it would take to be brought back, weighed
  std::uint64_t last_use = 0;  // PoolClock::stamp()

  friend bool operator<(const Worth& a, const Worth& b) {
    return std::tie(a.seconds, a.last_use) < std::tie(b.seconds, b.last_use);
  }
};

// Called by the PagePool that it is registered with, on the engine thread.
class Reclaimable {
 public:
  Reclaimable() = default;
  Reclaimable(const Reclaimable&) = delete;
  Reclaimable& operator=(const Reclaimable&) = delete;
  virtual ~Reclaimable() = default;

  // Of what would go first; nothing: there is nothing to give.
  virtual std::optional<Worth> least() const = 0;
  // Gives that one back to the pool, now. Requires least().
  virtual void reclaim_least() = 0;
  // About how many pages it could give in all. An admission asks, before anything is taken away.
  virtual std::int64_t reclaimable_pages() const = 0;
};

}  // namespace tandem
