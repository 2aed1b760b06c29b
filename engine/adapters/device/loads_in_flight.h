// The loads in flight to one device: which parts of each adapter have been queued, sent and have
// arrived, and when the rest is expected. LoadQueue changes them, steps and planners read them.
//
// Only one thread at a time may use it, the one that uses the LoadQueue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/adapters/device/device_table.h"
#include "gpu/device.h"

namespace tandem {

// When the parts of a layer are expected on the device.
struct LayerArrival {
  TimePoint a, b;
};

// Layer l, or its B, has arrived when event l has passed; null: it is not enqueued yet.
using LayerEvents = std::span<const std::unique_ptr<Event>>;

// An adapter that is loading, for steps that may compute with it before it has arrived. Valid until
// DeviceTier::poll().
struct ArrivingAdapter {
  SlotId slot;
  std::uint32_t generation = 0;
  AdapterBytes source;
  const AdapterReading* reading = nullptr;  // null: `source` is complete
  LayerEvents layers;                       // both parts of the layer; null: not enqueued yet
  LayerEvents b_parts;                      // its B; also null if it travels with A
  std::span<const LayerArrival> arrivals;   // expected when the load was enqueued
};

// The parts of a layer, as bits.
inline constexpr unsigned kPartA = 1, kPartB = 2, kBothParts = 3;

struct AdapterLoad {
  std::uint32_t generation = 0;  // of this load, for its ready words
  AdapterBytes source;
  std::vector<std::unique_ptr<Event>> layers;   // passed when both parts of a layer have arrived
  std::vector<std::unique_ptr<Event>> b_parts;  // passed when B has; null: it travels with A
  std::unique_ptr<Event> whole;                 // passed when all of it has
  std::vector<LayerArrival> arrivals;           // when each layer is expected
  std::vector<double> unread;                   // as LoadsInFlight::unread(), when it was enqueued
  std::vector<std::uint8_t> queued, sent;       // parts, by layer
  std::size_t pieces_left = 0;                  // to be sent
  bool begun = false;                           // a piece has been sent
  TimePoint begun_at{};                         // by the host, with tracing on
  std::unique_ptr<Event> begins;                // by the device; null: tracing is off
};

// Draws a load that has arrived, in traces.
void trace_load(const AdapterLoad& load, const ServedAdapter& adapter, SlotId slot) noexcept;

class LoadsInFlight {
 public:
  // `table` outlives it. `num_devices` share the model.
  LoadsInFlight(const DeviceTable& table, std::int32_t num_devices);

  // No value: all of it has arrived, or nothing is enqueued. Where several devices share the model,
  // it is arriving until DeviceTier::poll() has seen it arrive on all.
  std::optional<ArrivingAdapter> arriving(const ServedAdapter& adapter) const;
  // The adapter that is being loaded into this slot; null: none.
  AdapterLease arriving_in(SlotId slot) const;
  // For a load, enqueued or not: the layers that are still being read, as
  // ReadingPace::seconds_left(); empty: none.
  std::vector<double> unread(const ServedAdapter& adapter) const;
  // The slots with loads, in the order of add().
  std::span<const SlotId> slots() const { return slots_; }

  // If memory runs out, add() throws and changes nothing.
  void add(SlotId slot, AdapterBytes source, std::uint32_t generation);
  void remove(SlotId slot) noexcept;
  // Null: there is no load.
  const AdapterLoad* find(SlotId slot) const { return loads_[slot.index()].get(); }
  const AdapterLoad* find(const ServedAdapter& adapter) const;
  AdapterLoad& at(SlotId slot) { return *loads_[slot.index()]; }
  const ServedAdapter& adapter(SlotId slot) const { return *table_->row(slot).adapter; }

  // Ends readings that are over their time limit. await_readings() waits for the others, too.
  void end_overdue_readings() const;
  void await_readings() const noexcept;

 private:
  const DeviceTable* table_;
  const bool is_shared_;
  std::vector<std::unique_ptr<AdapterLoad>> loads_;  // [slots]; null: nothing is loading there
  std::vector<SlotId> slots_;                        // in the order of add()
};

}  // namespace tandem
