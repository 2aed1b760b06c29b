// The loads under way to one device: their pieces in the planned order, put on a stream of their
// own in time.
//
// A load is one whole adapter: its rows of the tables, then its layers, each in as few copies as
// its chunks allow, an event after each. They go in order, or in pieces and in an order that
// somebody plans, mixed with those of other adapters. Where rows may be computed while the weights
// travel (LoadSignals) the device sees their arrival, too: a word after each piece.
//
// An adapter whose folder is still being read (AdapterReading) is loaded like any other: the load
// stream waits for each of its layers, and what is expected of the link counts that in.
//
// Chunks are given out while steps that are under way may still read what was in them: the load
// stream then first waits for the last of these steps.
//
// One thread at a time uses it: the engine's, or the one that enqueues steps of the device.
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
#include "scheduler/coldstart/load_piece.h"

namespace tandem {

// What the device is told of loads under way, and what is known of the link.
struct LoadSignals {
  enum class Words {
    none,    // whoever reads an adapter that is loading waits for its events
    whole,   // the ready words of the row after the last layer, when all of it is there
    layers,  // these and every layer's
  };
  Words words = Words::none;
  double link_bytes_per_s = 50e9;
  double copy_s = 2e-6;  // of each copy beyond its bytes
  // For LayerArrival, and what loads take. Outlives the queue; null, with `none` alone: they are
  // not timed.
  const Clock* clock = nullptr;
  ColdStartLog* cold_starts = nullptr;  // is told of loads. Outlives the queue
};

// When the parts of a layer are expected on the device.
struct LayerArrival {
  TimePoint a, b;
};

// Layer l, or its B, is there when event l has passed; null: it is not on the stream yet.
using LayerEvents = std::span<const std::unique_ptr<Event>>;

// An adapter that is loading, as a step sees it that may compute with it before it is there. Valid
// until DeviceTier::poll().
struct ArrivingAdapter {
  SlotId slot;
  std::uint32_t generation = 0;
  AdapterBytes source;
  const AdapterReading* reading = nullptr;  // null: all of it is in `source`
  LayerEvents layers;                       // both parts of the layer; null: not on the stream yet
  LayerEvents b_parts;                      // B of it; null, too, where it travels with A
  std::span<const LayerArrival> arrivals;   // expected, as of when the load was enqueued
};

class LoadQueue {
 public:
  // To the device of this rank of `table`'s, what belongs there of adapters of a model of shape
  // `config`. `table` and the device's memory outlive it.
  static Result<std::unique_ptr<LoadQueue>> create(const TierDevice& device, std::size_t rank,
                                                   const ModelSpec& config,
                                                   const LoadSignals& signals, DeviceTable& table);
  ~LoadQueue();  // waits for what is on the stream

  // For those who compute meanwhile.

  // Nothing: all of it is there, or nothing enqueued. Where several devices share the model it is
  // arriving until it is there on all, as poll() sees it.
  std::optional<ArrivingAdapter> arriving(const ServedAdapter& adapter) const;
  // What is on its way into this slot; null: nothing is.
  AdapterLease arriving_in(SlotId slot) const;
  // Of what is on its way, enqueued or not: its layers that are still being read, as
  // ReadingPace::seconds_left(); empty: none is.
  std::vector<double> unread(const ServedAdapter& adapter) const;
  // Has `stream` wait for that piece of a load, if it is under way. `kind` b: B, with or without A;
  // layer: all of it. What is not on the load stream yet is put there first, with all before it:
  // that may take until the stream has room, but no longer than the loads before it.
  void wait(const ServedAdapter& adapter, std::int64_t layer, PieceKind kind, Stream& stream);
  // All that waits could be put on the stream at once.
  bool has_room() const;
  // Keeps the load stream busy. Call often while steps run; poll() does it, too.
  void feed();
  // When the link has nothing left to do, by what is known of it; in the past if so already.
  TimePoint link_free_at() const { return link_free_at_; }
  // What loads took that have ended since the last call, over what LoadSignals says; nothing: none
  // has, or it was no measurement.
  std::optional<LoadTimer::Took> took() { return timer_.look(); }
  // What goes onto the stream from now on, but B alone, waits until `*word` is `value`: until
  // let_go(), or a step that has to wait for it. Pinned memory; for measuring.
  void hold(std::uint32_t* word, std::uint32_t value);
  void let_go();
  // Copies take so many times what LoadSignals says.
  void set_link_factor(double factor) { link_factor_ = factor; }
  // Seconds from reserve() until it was there.
  const CountedValues<kAdapterLoadBounds.size()>& load_times() const { return load_times_; }
  void forget_counts() { load_times_ = {}; }
  const std::uint32_t* ready_words() const { return table_->slots(rank_).ready_words(); }
  std::size_t num_loading() const { return loading_.size(); }  // the reserved ones as well
  std::int64_t bytes_loading() const;  // of all of these, as they are on the device

  // For the device tier.

  // So much waits already that the planner's order would mean nothing for more.
  bool is_full() const;
  // A load from `source` into the slot's row, which is new; it waits for enqueue(). `generation`:
  // what its ready words will hold. Throws where there is no memory, and nothing has changed.
  void reserve(SlotId slot, AdapterBytes source, std::uint32_t generation);
  // Undoes it; nothing has been enqueued.
  void forget(SlotId slot) noexcept;
  // Enqueues the loads of these reserved slots: `order` first, whose adapters are indices in
  // `slots`; what it does not name after that, adapter by adapter.
  void enqueue(std::span<const SlotId> slots, std::span<const LoadPiece> order);
  // Adds the slots of loads that have arrived, which end() is to be told; or, on a failure of the
  // device, those of all that were under way and have ended, in vain.
  Status poll(std::vector<SlotId>& there);
  // The load has arrived, here and wherever else it goes.
  void end(SlotId slot);
  // An exception has left a load half done: until abandon() all of the above throw, for there is no
  // telling what they would miss.
  bool is_torn() const { return torn_; }
  // Waits until no load under way is of an adapter that is still being read: steps that wait for
  // its layers then go on, and it ends when it has gone on for too long, as nobody else looks.
  void await_readings() noexcept;
  // Ends all loads, in vain, when what is on the stream has passed. `ended` has room for all.
  Status abandon(std::vector<SlotId>& ended) noexcept;
  // Puts all that waits on the stream, and waits for it.
  Status finish();
  // Step number `number` has been enqueued on `stream`; kMaxStepsInFlight are under way at most.
  void step_enqueued(Stream& stream, std::uint64_t number);

 private:
  struct Load {
    TimePoint reserved{};
    std::uint32_t generation = 0;  // of this load: what its ready words will hold
    AdapterBytes source;
    std::vector<std::unique_ptr<Event>> layers;   // passed when both parts of the layer are there
    std::vector<std::unique_ptr<Event>> b_parts;  // when B is; null: it travels with A
    std::unique_ptr<Event> whole;                 // when all of it is
    std::vector<LayerArrival> arrivals;           // when each layer is expected
    std::vector<double> unread;                   // when enqueued: as LoadQueue::unread()
    std::vector<std::uint8_t> queued, sent;       // by layer: bit 0 A, bit 1 B
    std::size_t pieces_left = 0;                  // to be sent
    bool begun = false;                           // a piece has been
    TimePoint begun_at{};                         // by the host, if it is traced
    std::unique_ptr<Event> begins;                // and by the device; null: it is not
  };
  static constexpr unsigned kPartA = 1, kPartB = 2, kBothParts = 3;
  struct Piece {
    SlotId slot;  // that is loading
    std::size_t layer;
    unsigned parts;
    TimePoint begins;  // expected, if has_words()
    double model_s = 0;
  };
  // On the stream, and when they will have gone from it.
  struct Ahead {
    const Event* event;
    std::size_t operations;
    SlotId slot;  // what the event told last of
    std::size_t layer;
    std::uint32_t generation;  // of its load
  };

  LoadQueue(const TierDevice& device, std::size_t rank, const ModelSpec& config,
            const LoadSignals& signals, DeviceTable& table);
  // Whatever leaves the scope by an exception has torn a load.
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
  const ModelSpec config_;
  const ModelSpec shape_;  // of a shard
  const LoadSignals signals_;
  DeviceTable* table_;
  std::array<std::unique_ptr<Event>, kMaxStepsInFlight> steps_;  // by the steps' numbers
  std::uint64_t num_steps_ = 0;
  std::size_t num_events_ = 0;                        // of loads, ever made
  std::vector<std::unique_ptr<Event>> spare_events_;  // with room for all: ends take no memory
  std::vector<std::unique_ptr<Load>> loads_;          // [slots]; null: nothing is on its way there
  std::vector<SlotId> loading_;                       // their slots, in the order of reserve()
  std::deque<Piece> queue_;                           // in their order, not on the stream yet
  std::deque<Ahead> ahead_;
  std::size_t operations_ahead_ = 0;
  std::size_t operations_untold_ = 0;  // of pieces without an event, since the last with one
  bool torn_ = false;
  TimePoint link_free_at_{};
  double link_factor_ = 1;
  std::uint32_t* hold_ = nullptr;  // null: nothing is held
  std::uint32_t hold_value_ = 0;
  LoadTimer timer_;
  CountedValues<kAdapterLoadBounds.size()> load_times_;
  std::unique_ptr<Stream> stream_;  // last: ends before what it writes to
};

}  // namespace tandem
