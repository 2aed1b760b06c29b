// The loads in flight to one device: their pieces in the planned order, enqueued in time on a
// stream of their own.
//
// A load copies one whole adapter: its rows of the tables, then its layers, each in as few copies
// as its chunks allow, with an event after each. The layers go in order, or in pieces in a planned
// order, mixed with those of other adapters. If rows may be computed before the weights have
// arrived (LoadSignals), the device sees the arrival, too: a word is written after each piece.
//
// An adapter whose folder is still being read (AdapterReading) is loaded like any other: the load
// stream waits for each of its layers, and the expected times include that.
//
// Chunks may be reused while steps in flight still read their old contents: the load stream then
// waits for the last of these steps first.
//
// Only one thread at a time may use it: the engine's, or the one that enqueues the device's steps.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/adapters/adapter_strips.h"
#include "engine/adapters/cold_start_log.h"
#include "engine/adapters/device/device_table.h"
#include "engine/adapters/device/load_timer.h"
#include "engine/memory/kv_cache.h"
#include "engine/model/model.h"
#include "engine/model/step/steps_in_flight.h"
#include "engine/service/counted_values.h"
#include "gpu/device.h"
#include "scheduler/planning/coldstart/load_piece.h"

namespace tandem {

// The signals to the device about loads in flight, and the costs of the link.
struct LoadSignals {
  enum class Words {
    none,    // readers of a loading adapter wait for its events
    whole,   // the ready words of the row after the last layer, at the end
    layers,  // these and the words of every layer
  };
  Words words = Words::none;
  double link_bytes_per_s = 50e9;
  double copy_s = 2e-6;  // of each copy, in addition to its bytes
  // For LayerArrival and the times of loads. Outlives the queue. Null is allowed with `none`: loads
  // are not timed then.
  const Clock* clock = nullptr;
  ColdStartLog* cold_starts = nullptr;  // records loads; outlives the queue
};

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

class LoadQueue {
 public:
  // For the device of this rank of `table`'s, and its part of adapters of a model of shape
  // `spec`. `table` and the device's memory outlive the queue.
  static Result<std::unique_ptr<LoadQueue>> create(const TierDevice& device, std::size_t rank,
                                                   const ModelSpec& spec,
                                                   const LoadSignals& signals, DeviceTable& table);
  ~LoadQueue();  // waits for what is on the stream

  // Functions for steps that compute during loads.

  // No value: all of it has arrived, or nothing is enqueued. Where several devices share the model,
  // it is arriving until poll() has seen it arrive on all.
  std::optional<ArrivingAdapter> arriving(const ServedAdapter& adapter) const;
  // The adapter that is being loaded into this slot; null: none.
  AdapterLease arriving_in(SlotId slot) const;
  // For a load, enqueued or not: the layers that are still being read, as
  // ReadingPace::seconds_left(); empty: none.
  std::vector<double> unread(const ServedAdapter& adapter) const;
  // Makes `stream` wait for that piece of a load, if it is in flight. `kind` b: B, with or without
  // A; layer: both. A piece that is not on the load stream yet is enqueued there first, after all
  // before it: this may block until the stream has room, but not for longer than the loads before
  // it take.
  void wait(const ServedAdapter& adapter, std::int64_t layer, PieceKind kind, Stream& stream);
  // True if all waiting pieces could be enqueued at once.
  bool has_room() const;
  // Keeps the load stream busy. Call it often while steps run; poll() calls it, too.
  void feed();
  // The expected time at which the link becomes idle; in the past if it is idle.
  TimePoint link_free_at() const { return link_free_at_; }
  // Measured and modelled times (LoadSignals) of loads that have ended since the last call; no
  // value: none has, or they could not be measured.
  std::optional<LoadTimer::Took> took() { return timer_.look(); }
  // Makes the pieces that are enqueued from now on, except B alone, wait until `*word` is `value`.
  // let_go() sets it, as does a step that has to wait for a piece. Pinned memory; for measurements.
  void hold(std::uint32_t* word, std::uint32_t value);
  void let_go();
  // The factor by which copies take longer than LoadSignals says.
  void set_link_factor(double factor) { link_factor_ = factor; }
  // Seconds from reserve() until the load had arrived.
  const CountedValues<kAdapterLoadBounds.size()>& load_times() const { return load_times_; }
  void forget_counts() { load_times_ = {}; }
  const std::uint32_t* ready_words() const { return table_->slots(rank_).ready_words(); }
  std::size_t num_loading() const { return loading_.size(); }  // with the reserved ones
  std::int64_t bytes_loading() const;                          // of all of these, in device layout

  // Functions for the device tier.

  // True if so many pieces wait that an order by the planner would have no effect on more.
  bool is_full() const;
  // Adds a load from `source` into the slot's row, which is new; enqueue() starts it. `generation`:
  // for its ready words. If memory runs out, throws and changes nothing.
  void reserve(SlotId slot, AdapterBytes source, std::uint32_t generation);
  // Undoes reserve(), before enqueue().
  void forget(SlotId slot) noexcept;
  // Enqueues the loads of these reserved slots: first the pieces in `order`, whose adapters are
  // indices in `slots`, then the others, adapter by adapter.
  void enqueue(std::span<const SlotId> slots, std::span<const LoadPiece> order);
  // Adds the slots of loads that have arrived, for end(). On a failure of the device, adds those of
  // all loads in flight, which have ended without success.
  Status poll(std::vector<SlotId>& there);
  // Ends a load that has arrived on all devices.
  void end(SlotId slot);
  // True if an exception has left a load half done: until abandon() all functions above throw, as
  // their answers might be wrong.
  bool is_torn() const { return torn_; }
  // Waits until no load in flight is of an adapter that is still being read, so that steps that
  // wait for its layers can go on; a reading over its time limit is ended here.
  void await_readings() noexcept;
  // Ends all loads without success, after the operations on the stream. `ended` has room for all.
  Status abandon(std::vector<SlotId>& ended) noexcept;
  // Enqueues all that waits, and waits for it.
  Status finish();
  // Step number `number` has been enqueued on `stream`; at most kMaxStepsInFlight are in flight.
  void step_enqueued(Stream& stream, std::uint64_t number);

 private:
  struct Load {
    TimePoint reserved{};
    std::uint32_t generation = 0;  // of this load, for its ready words
    AdapterBytes source;
    std::vector<std::unique_ptr<Event>> layers;   // passed when both parts of a layer have arrived
    std::vector<std::unique_ptr<Event>> b_parts;  // passed when B has; null: it travels with A
    std::unique_ptr<Event> whole;                 // passed when all of it has
    std::vector<LayerArrival> arrivals;           // when each layer is expected
    std::vector<double> unread;                   // at enqueue(), as LoadQueue::unread()
    std::vector<std::uint8_t> queued, sent;       // by layer: bit 0 A, bit 1 B
    std::size_t pieces_left = 0;                  // to be sent
    bool begun = false;                           // a piece has been sent
    TimePoint begun_at{};                         // by the host, with tracing on
    std::unique_ptr<Event> begins;                // by the device; null: tracing is off
  };
  static constexpr unsigned kPartA = 1, kPartB = 2, kBothParts = 3;
  struct Piece {
    SlotId slot;  // of a load
    std::size_t layer;
    unsigned parts;
    TimePoint begins;  // expected, if has_words()
    double model_s = 0;
  };
  // Operations on the stream, and the event after which they are done.
  struct Ahead {
    const Event* event;
    std::size_t operations;
    SlotId slot;  // of the last piece before the event
    std::size_t layer;
    std::uint32_t generation;  // of its load
  };

  LoadQueue(const TierDevice& device, std::size_t rank, const ModelSpec& spec,
            const LoadSignals& signals, DeviceTable& table);
  // Marks the queue as torn if an exception leaves the scope.
  class Guard;
  void check_whole() const;
  bool has_words() const { return signals_.words != LoadSignals::Words::none; }
  Load* find(const ServedAdapter& adapter) const;
  Load& load(SlotId slot) const { return *loads_[slot.index()]; }
  std::vector<AdapterStrip> strips(SlotId slot, std::size_t layer, unsigned parts) const;
  std::size_t copy_strip(const DeviceRow& row, const std::byte* source, const AdapterStrip& strip);
  void queue_piece(SlotId slot, std::int32_t layer, PieceKind kind, TimePoint now);
  bool is_due(const Piece& piece) const;
  void hurry(const Load& load, std::size_t layer, unsigned parts);
  void look();
  void note_arrival(const Ahead& passed);
  void send_next();
  std::size_t begin(SlotId slot);
  std::size_t copy(const Piece& piece);
  const Event* mark_sent(const Piece& piece);
  void end_load(SlotId slot, bool well);
  void trace_load(SlotId slot) noexcept;
  std::unique_ptr<Event> record_event();
  void drop_all(std::vector<SlotId>& ended);

  Device* device_;
  const KvCache* memory_;
  const std::size_t rank_;
  const ModelSpec spec_;
  const ModelSpec shape_;  // of a shard
  const LoadSignals signals_;
  DeviceTable* table_;
  std::array<std::unique_ptr<Event>, kMaxStepsInFlight> steps_;  // by step number
  std::uint64_t num_steps_ = 0;
  std::size_t num_events_ = 0;                        // of loads, created so far
  std::vector<std::unique_ptr<Event>> spare_events_;  // room for all, so that ends never allocate
  std::vector<std::unique_ptr<Load>> loads_;          // [slots]; null: nothing is loading there
  std::vector<SlotId> loading_;                       // slots of loads_, in the order of reserve()
  std::deque<Piece> queue_;                           // in order, not on the stream yet
  std::deque<Ahead> ahead_;
  std::size_t operations_ahead_ = 0;
  std::size_t operations_untold_ = 0;  // of pieces since the last event
  bool torn_ = false;
  TimePoint link_free_at_{};
  double link_factor_ = 1;
  std::uint32_t* hold_ = nullptr;  // null: nothing is held
  std::uint32_t hold_value_ = 0;
  LoadTimer timer_;
  CountedValues<kAdapterLoadBounds.size()> load_times_;
  std::unique_ptr<Stream> stream_;  // last: destroyed before the memory it writes
};

}  // namespace tandem
