// Who holds pages only because nobody else wants them: the prefix cache, idle adapters.
#pragma once

#include <cstdint>
#include <optional>

namespace tandem {

// Called by the PagePool that it is registered with, on the engine thread.
class Reclaimable {
 public:
  Reclaimable() = default;
  Reclaimable(const Reclaimable&) = delete;
  Reclaimable& operator=(const Reclaimable&) = delete;
  virtual ~Reclaimable() = default;

  // PoolClock::stamp() of the last use of what would go first; nothing: there is nothing to give.
  virtual std::optional<std::uint64_t> oldest() const = 0;
  // Gives that one back to the pool, now. Requires oldest().
  virtual void reclaim_oldest() = 0;
  // About how many pages it could give in all. An admission asks, before anything is taken away.
  virtual std::int64_t reclaimable_pages() const = 0;
};

}  // namespace tandem
