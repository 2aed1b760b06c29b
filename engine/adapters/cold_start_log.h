// Records the latest cold starts, for statistics (ColdStart). The code that reads, loads and
// computes an adapter calls it as events happen; a call takes well below a microsecond.
//
// No call fails: an event that there is no memory for is left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "engine/adapters/served_adapter.h"
#include "engine/service/cold_start.h"

namespace tandem {

// Thread-safe.
class ColdStartLog {
 public:
  static constexpr std::size_t kMostStarts = 32;
  static constexpr std::size_t kMostSteps = 8;  // of one cold start

  explicit ColdStartLog(const Clock& clock) : clock_(&clock) {}

  void read_begins(const ServedAdapter& adapter) noexcept;
  void read_ended(const ServedAdapter& adapter, bool well) noexcept;
  void load_ordered(const ServedAdapter& adapter) noexcept;
  // Both parts of the layer are on the device.
  void layer_there(const ServedAdapter& adapter, std::size_t layer) noexcept;
  void load_ended(const ServedAdapter& adapter, bool well) noexcept;
  // A step with rows of the adapter ended now, and took `seconds`. The times in `step` count from
  // its start; those that list() returns count from the start of the cold start.
  void step_ended(const ServedAdapter& adapter, double seconds, ColdStart::Step step) noexcept;

  // A request that found the adapter cold got its first token now. Only the first such request
  // counts.
  void first_token(const ServedAdapter& adapter) noexcept;

  // Drops all entries, as they were no work of a user.
  void forget() noexcept;
  std::vector<ColdStart> list() const;  // oldest first

 private:
  struct Entry {
    const ServedAdapter* adapter;  // only compared, as it may be deleted
    TimePoint began;
    ColdStart start;
    bool is_open() const { return start.arrived_s < 0 && !start.failed; }
  };
  Entry* find(const ServedAdapter& adapter);
  Entry& begin(const ServedAdapter& adapter, TimePoint now);

  const Clock* clock_;
  mutable std::mutex mutex_;
  std::deque<Entry> entries_;  // guarded by mutex_, like the rest
  std::uint64_t last_number_ = 0;
};

}  // namespace tandem
