// The adapters in device memory, in four parts: DeviceTable lists those that are on the device or
// loading, DeviceLoads loads them, DeviceHolds knows who needs them, and DeviceRoom evicts them.
// This class moves an adapter from one part to the next.
//
// A copy from a failed reading (AdapterReading) is evicted when it has arrived and no sequence uses
// it.
//
// Only the engine thread may use it, and the objects that it returns, except for the lanes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/adapters/device/device_holds.h"
#include "engine/adapters/device/device_loads.h"
#include "engine/adapters/device/device_room.h"
#include "engine/adapters/device/device_table.h"
#include "engine/adapters/served_adapter.h"
#include "engine/memory/kv_cache.h"
#include "engine/memory/page_pool.h"
#include "engine/service/counted_values.h"
#include "scheduler/planning/coldstart/load_piece.h"

namespace tandem {

struct DeviceTierCounts {
  std::int64_t resident = 0;                            // now
  std::int64_t loading = 0;                             // now, with the reserved ones
  std::int64_t loading_bytes = 0;                       // of these, in device layout
  std::uint64_t loads = 0;                              // that have arrived
  std::uint64_t loaded_bytes = 0;                       // of these
  CountedValues<kAdapterLoadBounds.size()> load_times;  // of these, seconds from Turn::reserve()
  std::uint64_t evictions = 0;
};

class DeviceTier;

// The functions for one device, for the thread that enqueues the device's steps. The engine thread
// does not use the tier meanwhile.
class DeviceLane {
 public:
  std::size_t rank() const { return rank_; }
  LoadQueue& loads() const;
  AdapterTable table() const { return loads().stream().slots().table(); }
  // Called before and after a step is enqueued.
  void step_begins(Stream& stream) const;
  void step_ends(Stream& stream) const;

 private:
  friend class DeviceTier;
  DeviceLane(DeviceTier& tier, std::size_t rank) : tier_(&tier), rank_(rank) {}
  DeviceTier* tier_;
  std::size_t rank_;
};

class DeviceTier {
 public:
  // `devices` share a model of shape `spec`. They and `pool` outlive the tier.
  static Result<std::unique_ptr<DeviceTier>> create(const std::vector<TierDevice>& devices,
                                                    const ModelSpec& spec, DType dtype,
                                                    std::int32_t max_rank, std::int32_t num_slots,
                                                    PagePool& pool,
                                                    const LoadSignals& signals = {});
  ~DeviceTier();
  DeviceTier(const DeviceTier&) = delete;
  DeviceTier& operator=(const DeviceTier&) = delete;

  // Handles loads that have arrived, and evicts retired adapters that are unused, and those whose
  // content turned out to be wrong. A failure is a failure of the device: no load in flight has
  // arrived, results of steps with them are invalid, and their sequences must leave before anything
  // is started. Throws if memory ran out for a load, here or before; call abandon() then.
  Status poll();
  // Cleans up after an exception: if it hit a load, all loads end without success. Requires that no
  // step is in flight. A failure is a failure of the device.
  Status abandon() noexcept;
  // True if poll() has something to wait for, even without new requests.
  bool is_expecting() const { return num_loading() > 0 || retiring_; }

  // on_its_way: or on the device already. busy: too many loads are in flight to order more.
  enum class Start { on_its_way, not_in_host_tier, busy, no_room };

  // Loads that are ordered together: their room is reserved one by one, and their copies start when
  // the order is known. One round at a time, without a poll() in it.
  class Turn {
   public:
    explicit Turn(DeviceTier& tier);
    // Enqueues what was reserved and not enqueued, in any order. If memory runs out, all loads in
    // flight fail, and poll() reports that.
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    // Protects the adapter from eviction by later reserve() calls of this round. Otherwise two
    // waiting sequences could take the room from each other for ever, and neither would run.
    void want(const ServedAdapter& adapter) { tier_->holds_.want(adapter); }
    // Reserves room for a load if the adapter is in the host tier. Takes it from idle adapters and
    // the prefix cache, and only if that suffices.
    Start reserve(const AdapterLease& adapter);
    std::span<const AdapterLease> reserved() const { return reserved_; }
    // Starts the copies of all reserved(): first the pieces in `order` (whose adapters are indices
    // in reserved()), then the others, adapter by adapter.
    void enqueue(std::span<const LoadPiece> order);

   private:
    DeviceTier* tier_;
    std::vector<AdapterLease> reserved_;
    std::vector<SlotId> slots_;  // of reserved_
  };
  // A round with one adapter.
  Start start(const AdapterLease& adapter) { return Turn(*this).reserve(adapter); }

  // Called before and after a step is enqueued on all devices (lane()). At most kMaxStepsInFlight
  // are in flight. If an exception ends a step between them, wait for the streams, then call
  // abandon().
  void step_begins() { in_step_ = true; }
  void step_ends();
  DeviceLane lane(std::size_t rank) { return {*this, rank}; }

  // Its row of the tables; it must be resident or loading.
  AdapterSlot slot(const ServedAdapter& adapter) const;
  // The proof of the copy on the device; without a copy it is given.
  AdapterProof proof(const ServedAdapter& adapter) const;

  DeviceLoads& loads() { return loads_; }
  DeviceHolds& holds() { return holds_; }
  DeviceRoom& room() { return room_; }
  DeviceTierCounts counts() const;
  void forget_counts();

  // Waits for the loads in flight (benchmarks, tests).
  Status finish_loads();

 private:
  friend class DeviceLane;
  DeviceTier(std::int32_t num_slots, const KvCache& memory, PagePool& pool, const Clock* clock)
      : pool_(&pool),
        clock_(clock),
        table_(num_slots, memory.layout(), pool),
        holds_(table_, pool),
        room_(table_, holds_, memory, pool) {}
  std::size_t num_loading() const { return table_.taken().size() - table_.resident().size(); }
  Status give_up_loads() noexcept;
  void arrived(SlotId slot);
  void let_go_of_retired();

  PagePool* pool_;
  const Clock* clock_;  // null: loads are not timed
  DeviceTable table_;
  DeviceHolds holds_;
  DeviceRoom room_;
  DeviceLoads loads_;  // destroyed before what they write to
  bool in_turn_ = false;
  bool in_step_ = false;
  bool retiring_ = false;  // a retired or wrong adapter is still there
  std::int64_t loading_bytes_ = 0;
  DeviceTierCounts counts_;  // of loads that have arrived
};

inline LoadQueue& DeviceLane::loads() const {
  return tier_->loads_.on(rank_);
}

}  // namespace tandem
