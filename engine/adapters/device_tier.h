// The adapters in device memory: chunks of the page pool, loads from the host tier on a stream of
// their own, and who gives way when room is wanted.
//
// A load is one whole adapter: its rows of the tables, then its layers, each in as few copies as
// its chunks allow, an event after each. They go in order, or in pieces and in an order that
// somebody plans, mixed with those of other adapters. Where rows may be computed while the weights
// travel (LoadSignals) the device sees their arrival, too: a word after each piece.
//
// An adapter whose folder is still being read (AdapterReading) is loaded like any other: the load
// stream waits for each of its layers. A copy that comes of a bad reading is let go when it has
// arrived and nobody uses it.
//
// Chunks are given out while steps that are under way may still read what was in them: the load
// stream then first waits for the last of these steps. What is being loaded, or used by a running
// sequence, or pinned, is not evicted; eviction itself only lets the chunks go, since the host tier
// or the disk has the bytes.
//
// The engine thread alone uses it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/adapters/adapter_slots.h"
#include "engine/adapters/load_piece.h"
#include "engine/adapters/served_adapter.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/memory/page_pool.h"
#include "engine/memory/reclaimable.h"
#include "gpu/device.h"

namespace tandem {

struct DeviceTierCounts {
  std::int64_t resident = 0;
  std::int64_t loading = 0;
  std::uint64_t loads = 0;         // that have arrived
  std::uint64_t loaded_bytes = 0;  // by them
  std::uint64_t evictions = 0;
};

// What the device is told of loads under way, and what is known of the link.
struct LoadSignals {
  enum class Words {
    none,    // whoever reads an adapter that is loading waits for its events
    whole,   // the ready words of the row after the last layer, when all of it is there
    layers,  // these and every layer's
  };
  Words words = Words::none;
  double link_bytes_per_s = 50e9;
  double copy_s = 2e-6;          // of each copy beyond its bytes
  const Clock* clock = nullptr;  // for LayerArrival; outlives the tier; not for `none`
};

// An adapter that is loading, as a step sees it that may compute with it before it is there. Valid
// until poll().
struct ArrivingAdapter {
  std::int32_t slot = -1;
  std::uint32_t generation = 0;
  AdapterBytes source;
  const AdapterReading* reading = nullptr;  // null: all of it is in `source`
  LayerEvents layers;                       // both parts of the layer; null: not on the stream yet
  LayerEvents b_parts;                      // B of it; null, too, where it travels with A
  std::span<const LayerArrival> arrivals;   // expected, as of when the load was enqueued
};

class DeviceTier final : public Reclaimable {
 public:
  // `memory` and `pool` outlive it.
  static Result<std::unique_ptr<DeviceTier>> create(Device& device, const ModelConfig& config,
                                                    DType dtype, std::int32_t max_rank,
                                                    std::int32_t num_slots, const KvCache& memory,
                                                    PagePool& pool,
                                                    const LoadSignals& signals = {});
  ~DeviceTier() override;

  // Notices loads that have arrived and lets go of retired adapters that nobody uses, and of those
  // whose content turned out not to be theirs. A failure is
  // one of the device: no load under way has arrived, and what runs with one of them is void.
  Status poll();
  // Something is under way that poll() will notice, though no request comes.
  bool is_expecting() const { return !loading_.empty() || retiring_; }

  // Starts the load if the adapter is in the host tier and there is room. What it needs is taken
  // from idle adapters and the prefix cache, and only if that suffices.
  enum class Start { on_its_way, not_in_host_tier, busy, no_room };
  Start start(const AdapterLease& adapter);
  // The same in two parts, for loads that are ordered together: their room is taken one by one;
  // enqueue() then starts the copies of all reserved(), `order` first (its adapters are indices in
  // reserved()), what it does not name after that, adapter by adapter. Nothing may come in between
  // but other calls of reserve().
  Start reserve(const AdapterLease& adapter);
  std::span<const AdapterLease> reserved() const { return reserved_; }
  void enqueue(std::span<const LoadPiece> order);
  // Not evicted by start() for those that come after it, until end_turn(). Without this two waiting
  // sequences could take the room from each other for ever, neither running.
  void want(ServedAdapter& adapter) const { adapter.device_.wanted = turn_; }
  void end_turn() { ++turn_; }
  // Never evicts it from now on, until it is retired.
  void keep(ServedAdapter& adapter) { adapter.device_.kept = true; }

  // A running sequence uses the adapter from now on; requires that it is resident or loading.
  void enter(ServedAdapter& adapter);
  void leave(ServedAdapter& adapter);

  // Call before each step that is enqueued on `stream`.
  void step_begins(Stream& stream);
  // Call after each step that was enqueued on `stream`. At most two are under way at a time.
  void step_enqueued(Stream& stream);
  // The loads under way among these adapters, for AdapterTable::pending. Valid until poll().
  void add_pending(const ServedAdapter& adapter, std::vector<LayerEvents>& pending);
  // Nothing: all of it is there.
  std::optional<ArrivingAdapter> arriving(const ServedAdapter& adapter) const;
  // Puts that piece of a load on the stream, and all before it, so that its event is there to be
  // waited for. `kind` b: B, with or without A; layer: all of it.
  void hurry(const ServedAdapter& adapter, std::int64_t layer, PieceKind kind);
  // Keeps the load stream busy. Call often while steps run; poll() does it, too.
  void feed();
  // When the link has nothing left to do, by what is known of it; in the past if so already.
  TimePoint link_free_at() const { return link_free_at_; }

  AdapterTable table() const { return slots_.table(); }
  const std::uint32_t* ready_words() const { return slots_.ready_words(); }
  std::int32_t num_slots() const { return slots_.num_slots(); }
  std::int32_t pages_of(const ServedAdapter& adapter) const;
  bool is_kept(const ServedAdapter& adapter) const { return adapter.device_.kept; }
  // All that start() or the pool might.
  void evict_idle();
  // Adapters that are never evicted, and their pages.
  std::int32_t num_kept() const;
  std::int32_t kept_pages() const;
  // On the device and not kept, those used longest ago first.
  std::vector<AdapterLease> candidates() const;
  DeviceTierCounts counts() const;

  // Waits for the loads under way (benchmarks, tests).
  Status finish_loads();

  std::optional<std::uint64_t> oldest() const override;
  void reclaim_oldest() override;
  std::int64_t reclaimable_pages() const override;

 private:
  DeviceTier(PagePool& pool, const KvCache& memory) : pool_(&pool), memory_(&memory) {}

  bool evictable(const ServedAdapter& adapter) const;
  std::int64_t idle_chunks() const;
  std::optional<ChunkTable> take_chunks(std::int64_t count);
  static constexpr unsigned kPartA = 1, kPartB = 2, kBothParts = 3;
  struct QueuedPiece {
    ServedAdapter* adapter;  // that is loading
    std::size_t layer;
    unsigned parts;
    TimePoint begins;  // expected, if has_words()
  };
  static std::vector<std::pair<std::size_t, std::size_t>> byte_ranges(const ServedAdapter& adapter,
                                                                      std::size_t layer,
                                                                      unsigned parts);
  void queue_piece(ServedAdapter& adapter, std::int32_t layer, PieceKind kind);
  bool is_due(const QueuedPiece& piece) const;
  void send_next();
  void drop_queue();
  void wait_for_readers(const ServedAdapter& adapter);
  std::unique_ptr<Event> take_event();
  std::unique_ptr<Event> record_event();
  bool has_words() const { return signals_.words != LoadSignals::Words::none; }
  void arrived(ServedAdapter& adapter);
  void end_load(ServedAdapter& adapter);
  void evict(std::size_t index);  // of resident_

  PagePool* pool_;
  const KvCache* memory_;
  Device* device_ = nullptr;
  LoadSignals signals_;
  AdapterSlots slots_;
  std::array<std::unique_ptr<Event>, 2> steps_;  // of steps enqueued, by their number
  std::vector<std::uint64_t> slot_released_;     // PagePool::steps() then
  std::vector<std::unique_ptr<Event>> spare_events_;
  std::vector<AdapterLease> reserved_;   // room taken, nothing enqueued
  std::vector<AdapterLease> loading_;    // the reserved ones as well
  std::vector<AdapterLease> unwritten_;  // rows of the tables still to be written by step_begins()
  std::vector<AdapterLease> resident_;
  std::deque<QueuedPiece> queue_;  // in their order, not on the stream yet
  // On the stream, and when they will have gone from it.
  struct Ahead {
    const Event* event;
    std::size_t operations;
  };
  std::deque<Ahead> ahead_;
  std::size_t operations_ahead_ = 0;
  std::size_t operations_untold_ = 0;  // of pieces without an event, since the last with one
  std::uint32_t generation_ = 0;
  TimePoint link_free_at_{};
  std::uint64_t turn_ = 1;
  bool retiring_ = false;  // a retired adapter, or a bad one, is still there
  DeviceTierCounts counts_;
  std::unique_ptr<Stream> stream_;  // last: ends before what it writes to
};

}  // namespace tandem
