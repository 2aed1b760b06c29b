// The loads in flight to one device, as a queue of pieces in the planned order, which go to the
// load stream in time.
//
// A load copies one whole adapter: its rows of the tables, then its layers. These go in order, or
// in pieces in a planned order, mixed with those of other adapters.
//
// Only one thread at a time may use it: the engine's, or the one that enqueues the device's steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/adapters/device/load_signals.h"
#include "engine/adapters/device/load_stream.h"
#include "engine/adapters/device/loads_in_flight.h"
#include "scheduler/planning/coldstart/load_piece.h"

namespace tandem {

class LoadQueue {
 public:
  // See LoadStream::create().
  static Result<std::unique_ptr<LoadQueue>> create(const TierDevice& device, Shard shard,
                                                   const ModelSpec& spec,
                                                   const LoadSignals& signals, AdapterSlots slots,
                                                   const DeviceTable& table);

  const LoadsInFlight& in_flight() const {
    check_whole();
    return in_flight_;
  }
  LinkForecast& link() { return link_; }
  const LinkForecast& link() const { return link_; }
  LoadStream& stream() { return *stream_; }

  // Makes `stream` wait for that piece of a load, if it is in flight. `kind` b: B, with or without
  // A; layer: both. A piece that is not on the load stream yet is enqueued there first, after all
  // before it: this may block until the stream has room, but not for longer than the loads before
  // it take.
  void wait(const ServedAdapter& adapter, std::int64_t layer, PieceKind kind, Stream& stream);
  // True if all waiting pieces could be enqueued at once.
  bool has_room() const;
  // True if so many pieces wait that an order by the planner would have no effect on more.
  bool is_full() const;
  // Keeps the load stream busy. Call it often while steps run; poll() calls it, too.
  void feed();

  // Adds a load from `source` into the slot's row, which is new; enqueue() starts it. `generation`:
  // for its ready words. If memory runs out, throws and changes nothing.
  void reserve(SlotId slot, AdapterBytes source, std::uint32_t generation);
  // Undoes reserve(), before enqueue().
  void forget(SlotId slot) noexcept { in_flight_.remove(slot); }
  // Enqueues the loads of these reserved slots: first the pieces in `order`, whose adapters are
  // indices in `slots`, then the others, adapter by adapter.
  void enqueue(std::span<const SlotId> slots, std::span<const LoadPiece> order);
  // Adds the slots of loads that have arrived, for end(). After a failure of the device all loads
  // in flight have ended without success.
  Status poll(std::vector<SlotId>& there);
  // Ends a load that has arrived on all devices.
  void end(SlotId slot);
  // True if an exception has left a load half done: until abandon() all functions above but the
  // accessors of link and stream throw, as their answers might be wrong.
  bool is_torn() const { return torn_; }
  // Waits until no load in flight is of an adapter that is still being read, so that steps that
  // wait for its layers can go on; a reading over its time limit is ended here.
  void await_readings() const noexcept { in_flight_.await_readings(); }
  // Ends all loads without success, after the operations on the stream.
  Status abandon() noexcept;
  // Enqueues all that waits, and waits for it.
  Status finish();

 private:
  // Operations on the stream, and the event after which they are done.
  struct Ahead {
    const Event* event;
    std::size_t operations;
    SlotId slot;  // of the last piece before the event
    std::size_t layer;
    std::uint32_t generation;  // of its load
  };

  LoadQueue(std::unique_ptr<LoadStream> stream, Shard shard, const LoadSignals& signals,
            const DeviceTable& table)
      : signals_(signals),
        shard_(shard),
        in_flight_(table, shard.size),
        stream_(std::move(stream)) {}
  // Marks the queue as torn if an exception leaves the scope.
  class Guard;
  void check_whole() const;
  void queue_piece(SlotId slot, std::int32_t layer, PieceKind kind, TimePoint now);
  bool is_due(const QueuedPiece& piece) const;
  void hurry(const AdapterLoad& load, std::size_t layer, unsigned parts);
  void look();
  void note_arrival(const Ahead& passed);
  void send_next();
  void end_load(SlotId slot, bool well);
  void drop_all();

  const LoadSignals signals_;
  const Shard shard_;
  LinkForecast link_;
  LoadsInFlight in_flight_;
  std::deque<QueuedPiece> queue_;  // in order, not on the stream yet
  std::deque<Ahead> ahead_;
  std::size_t operations_ahead_ = 0;
  std::size_t operations_untold_ = 0;  // of pieces since the last event
  bool torn_ = false;
  std::unique_ptr<LoadStream> stream_;  // last: destroyed before the memory it reads
};

}  // namespace tandem
