// The last cold starts, for people who look on (ColdStart). Who reads, loads and computes an
// adapter tells it here what has happened, as it does; a note takes well below a microsecond.
//
// No call fails: where there is no memory for a note it is left out.
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
  static constexpr std::size_t kMostSteps = 8;  // of one

  explicit ColdStartLog(const Clock& clock) : clock_(&clock) {}

  void read_begins(const ServedAdapter& adapter) noexcept;
  void read_ended(const ServedAdapter& adapter, bool well) noexcept;
  void load_ordered(const ServedAdapter& adapter) noexcept;
  // Both parts of the layer are on the device.
  void layer_there(const ServedAdapter& adapter, std::size_t layer) noexcept;
  void load_ended(const ServedAdapter& adapter, bool well) noexcept;
  // A step with rows of the adapter ended now, and took so long: its times are told from its
  // beginning, and are from the cold start's in what list() returns.
  void step_ended(const ServedAdapter& adapter, double seconds, ColdStart::Step step) noexcept;

  // A request that found the adapter cold got its first token now. The first such request counts.
  void first_token(const ServedAdapter& adapter) noexcept;

  // What has been was no work of anybody's.
  void forget() noexcept;
  std::vector<ColdStart> list() const;  // oldest first

 private:
  struct Entry {
    const ServedAdapter* adapter;  // compared alone: it may be gone
    TimePoint began;
    ColdStart start;
    bool is_open() const { return start.arrived_s < 0 && !start.failed; }
  };
  Entry* find(const ServedAdapter& adapter);
  Entry& begin(const ServedAdapter& adapter, TimePoint now);

  const Clock* clock_;
  mutable std::mutex mutex_;
  std::deque<Entry> entries_;  // guarded by mutex_, like all below
  std::uint64_t last_number_ = 0;
};

}  // namespace tandem
