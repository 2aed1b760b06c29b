// The stream that copies adapters to one device. A piece of a load is a layer, its A or its B, and
// is copied in as few copies as the adapter's chunks allow, with an event after it. If rows may be
// computed before the weights have arrived (LoadSignals), the device sees the arrival, too: a word
// is written after each piece.
//
// An adapter whose folder is still being read (AdapterReading) is copied like any other: the stream
// waits for each of its layers. Chunks may be reused while steps in flight still read their old
// contents: the stream then waits for the last of these steps first.
//
// Only one thread at a time may use it, the one that uses the LoadQueue.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "engine/adapters/adapter_strips.h"
#include "engine/adapters/device/adapter_slots.h"
#include "engine/adapters/device/device_table.h"
#include "engine/adapters/device/load_signals.h"
#include "engine/adapters/device/load_timer.h"
#include "engine/adapters/device/loads_in_flight.h"
#include "engine/model/model.h"
#include "engine/model/step/steps_in_flight.h"
#include "gpu/device.h"

namespace tandem {

struct QueuedPiece {
  SlotId slot;  // of a load
  std::size_t layer;
  unsigned parts;
  TimePoint begins;    // expected, if the device has words
  double model_s = 0;  // by LoadSignals
};

class LoadStream {
 public:
  // For the device of rank `shard.rank`, whose tables are `slots`, and its part of adapters of a
  // model of shape `spec`. `table` and the device's memory outlive it.
  static Result<std::unique_ptr<LoadStream>> create(const TierDevice& device, Shard shard,
                                                    const ModelSpec& spec,
                                                    const LoadSignals& signals, AdapterSlots slots,
                                                    const DeviceTable& table);
  ~LoadStream();  // waits for what is on the stream

  const AdapterSlots& slots() const { return slots_; }

  // The time of a piece's copies by LoadSignals.
  double seconds_of(SlotId slot, std::size_t layer, unsigned parts) const;
  // Enqueues the piece of `load`. `link_is_idle`: nothing is on the stream; `is_last`: no piece
  // follows. Returns the number of operations, and the event after which they are done; null: none,
  // as it is an A whose B follows.
  struct Sent {
    std::size_t operations;
    const Event* event;
  };
  Sent send(AdapterLoad& load, const QueuedPiece& piece, bool link_is_idle, bool is_last);
  // Takes the events of a load that has ended. Does not allocate.
  void reuse_events(AdapterLoad& load) noexcept;

  // Makes the pieces that are enqueued from now on, except B alone, wait until `*word` is `value`.
  // let_go() sets it, as does a step that has to wait for a piece. Pinned memory; for measurements.
  void hold(std::uint32_t* word, std::uint32_t value);
  void let_go();
  // Measured and modelled times of loads that have ended since the last call; no value: none has,
  // or they could not be measured.
  std::optional<LoadTimer::Took> took() { return timer_.look(); }
  // All that is on the stream has ended, or is given up.
  void forget_times() { timer_.forget(); }

  // Leaves the write of a slot's rows of the tables to step_begins(): they are then valid for every
  // step, even before the weights have arrived. Without words, the slot's first piece writes them.
  void write_later(SlotId slot);
  // Called before and after step number `number` is enqueued on `stream`; at most kMaxStepsInFlight
  // are in flight.
  void step_begins(Stream& stream);
  void step_ends(Stream& stream, std::uint64_t number);

  bool failed() const { return stream_->failed(); }
  Status synchronize() { return stream_->synchronize(); }

 private:
  LoadStream(const TierDevice& device, Shard shard, const ModelSpec& spec,
             const LoadSignals& signals, AdapterSlots slots, const DeviceTable& table);
  std::vector<AdapterStrip> strips(SlotId slot, std::size_t layer, unsigned parts) const;
  void write_rows(Stream& stream, SlotId slot);
  std::size_t begin(AdapterLoad& load, SlotId slot);
  std::size_t copy(const AdapterLoad& load, const QueuedPiece& piece);
  std::size_t copy_strip(const DeviceRow& row, const std::byte* source, const AdapterStrip& strip);
  const Event* mark_sent(AdapterLoad& load, const QueuedPiece& piece);
  std::unique_ptr<Event> record_event();

  Device* device_;
  const KvCache* memory_;
  const Shard shard_;
  const ModelSpec spec_;
  const ModelSpec shape_;  // of a shard
  const LoadSignals signals_;
  const DeviceTable* table_;
  AdapterSlots slots_;
  std::vector<SlotId> unwritten_;                                // for step_begins()
  std::array<std::unique_ptr<Event>, kMaxStepsInFlight> steps_;  // by step number
  std::uint64_t num_steps_ = 0;
  std::size_t num_events_ = 0;                        // of loads, created so far
  std::vector<std::unique_ptr<Event>> spare_events_;  // room for all, so that ends never allocate
  std::uint32_t* hold_ = nullptr;                     // null: nothing is held
  std::uint32_t hold_value_ = 0;
  LoadTimer timer_;
  std::unique_ptr<Stream> stream_;  // last: destroyed before the memory it writes
};

}  // namespace tandem
