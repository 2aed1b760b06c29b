// The adapters in device memory: chunks of the page pool, loads from the host tier on a stream of
// their own, and who gives way when room is wanted.
//
// A load is one whole adapter: its rows of the tables, then its layers in order, each layer in as
// few copies as its chunks allow, an event after each layer. Chunks are given out while steps that
// are under way may still read what was in them: the load stream then first waits for the last of
// these steps. What is being loaded, or used by a running sequence, or pinned, is not
// evicted; eviction itself only lets the chunks go, since the host tier or the disk has the bytes.
//
// The engine thread alone uses it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/adapters/adapter_slots.h"
#include "engine/adapters/served_adapter.h"
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

class DeviceTier final : public Reclaimable {
 public:
  // `memory` and `pool` outlive it.
  static Result<std::unique_ptr<DeviceTier>> create(Device& device, const ModelConfig& config,
                                                    DType dtype, std::int32_t max_rank,
                                                    std::int32_t num_slots, const KvCache& memory,
                                                    PagePool& pool);
  ~DeviceTier() override;

  // Notices loads that have arrived and lets go of retired adapters that nobody uses. A failure is
  // one of the device: no load under way has arrived, and what runs with one of them is void.
  Status poll();
  // Something is under way that poll() will notice, though no request comes.
  bool is_expecting() const { return !loading_.empty() || retiring_; }

  // Starts the load if the adapter is in the host tier and there is room. What it needs is taken
  // from idle adapters and the prefix cache, and only if that suffices.
  enum class Start { on_its_way, not_in_host_tier, busy, no_room };
  Start start(const AdapterLease& adapter);
  // Not evicted by start() for those that come after it, until end_turn(). Without this two waiting
  // sequences could take the room from each other for ever, neither running.
  void want(ServedAdapter& adapter) const { adapter.device_.wanted = turn_; }
  void end_turn() { ++turn_; }
  // Never evicts it from now on, until it is retired.
  void keep(ServedAdapter& adapter) { adapter.device_.kept = true; }

  // A running sequence uses the adapter from now on; requires that it is resident or loading.
  void enter(ServedAdapter& adapter);
  void leave(ServedAdapter& adapter);

  // Call after each step that was enqueued on `stream`. At most two are under way at a time.
  void step_enqueued(Stream& stream);
  // The loads under way among these adapters, for AdapterTable::pending. Valid until poll().
  void add_pending(const ServedAdapter& adapter, std::vector<LayerEvents>& pending) const;

  AdapterTable table() const { return slots_.table(max_rank_); }
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
  void enqueue_load(ServedAdapter& adapter);
  void wait_for_readers(const ServedAdapter& adapter);
  void take_events(ServedAdapter& adapter);
  void arrived(ServedAdapter& adapter);
  void end_load(ServedAdapter& adapter);
  void evict(std::size_t index);  // of resident_

  PagePool* pool_;
  const KvCache* memory_;
  Device* device_ = nullptr;
  std::int32_t max_rank_ = 0;
  AdapterSlots slots_;
  std::array<std::unique_ptr<Event>, 2> steps_;  // of steps enqueued, by their number
  std::vector<std::uint64_t> slot_released_;     // PagePool::steps() then
  std::vector<std::unique_ptr<Event>> spare_events_;
  std::vector<AdapterLease> loading_;  // in the order of the stream
  std::vector<AdapterLease> resident_;
  std::size_t operations_ = 0;  // of the loads under way
  std::uint64_t turn_ = 1;
  bool retiring_ = false;  // a retired adapter is still there
  DeviceTierCounts counts_;
  std::unique_ptr<Stream> stream_;  // last: ends before what it writes to
};

}  // namespace tandem
