// The adapters in device memory, in three parts: which lie there or are on their way (DeviceTable),
// how they get there (LoadQueue), and who gives way when room is wanted (DeviceRoom). This class
// takes an adapter from one part to the next.
//
// A copy that comes of a bad reading (AdapterReading) is let go when it has arrived and nobody uses
// it.
//
// Where several devices share the model it does the same on all of them: an adapter is there when
// its last part is, on the slowest.
//
// The engine thread alone uses it, and what it hands out, but for the lanes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/adapters/device/device_room.h"
#include "engine/adapters/device/device_table.h"
#include "engine/adapters/device/load_queue.h"
#include "engine/adapters/served_adapter.h"
#include "engine/memory/page_pool.h"
#include "gpu/device.h"
#include "scheduler/coldstart/load_piece.h"

namespace tandem {

struct DeviceTierCounts {
  std::int64_t resident = 0;
  std::int64_t loading = 0;
  std::uint64_t loads = 0;         // that have arrived
  std::uint64_t loaded_bytes = 0;  // by them
  std::uint64_t evictions = 0;
};

class DeviceTier;

// One device's side of it: what the thread uses that enqueues the device's steps. The engine thread
// does nothing with the tier meanwhile.
class DeviceLane {
 public:
  std::size_t rank() const { return rank_; }
  AdapterTable table() const;
  LoadQueue& loads() const;
  // Around what is enqueued of a step.
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
  // `devices`, which outlive it like `pool`, share a model of shape `config`.
  static Result<std::unique_ptr<DeviceTier>> create(std::span<const TierDevice> devices,
                                                    const ModelSpec& config, DType dtype,
                                                    std::int32_t max_rank, std::int32_t num_slots,
                                                    PagePool& pool,
                                                    const LoadSignals& signals = {});
  // Of one device.
  static Result<std::unique_ptr<DeviceTier>> create(Device& device, const ModelSpec& config,
                                                    DType dtype, std::int32_t max_rank,
                                                    std::int32_t num_slots, const KvCache& memory,
                                                    PagePool& pool,
                                                    const LoadSignals& signals = {}) {
    const TierDevice one{&device, &memory};
    return create({&one, 1}, config, dtype, max_rank, num_slots, pool, signals);
  }
  ~DeviceTier();
  DeviceTier(const DeviceTier&) = delete;
  DeviceTier& operator=(const DeviceTier&) = delete;

  // Notices loads that have arrived and lets go of retired adapters that nobody uses, and of those
  // whose content turned out not to be theirs. A failure is one of the device: no load under way
  // has arrived, what runs with one of them is void, and leaves before anything is started again.
  // Throws where memory ran out on the way of a load, here or before: abandon() then.
  Status poll();
  // Gives up what an exception has left half done: loads that it hit end, in vain, and all others
  // with them. No step is under way. A failure is one of the device.
  Status abandon() noexcept;
  // Something is under way that poll() will notice, though no request comes.
  bool is_expecting() const { return num_loading() > 0 || retiring_; }

  // on_its_way: or there already. busy: so much is under way that it is too early to order more.
  enum class Start { on_its_way, not_in_host_tier, busy, no_room };

  // Loads that are ordered together: their room is taken one by one, and their copies start when it
  // is known in which order. One turn at a time, and no poll() in it.
  class Turn {
   public:
    explicit Turn(DeviceTier& tier);
    // What was reserved and not enqueued goes as it comes. Where that fails for want of memory all
    // loads under way are given up, which poll() says.
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    // Not evicted by reserve() for those that come after it in this turn. Without this two waiting
    // sequences could take the room from each other for ever, neither running.
    void want(const ServedAdapter& adapter) { tier_->room_.want(adapter); }
    // Takes the room for a load if the adapter is in the host tier, from idle adapters and the
    // prefix cache, and only if that suffices.
    Start reserve(const AdapterLease& adapter);
    std::span<const AdapterLease> reserved() const { return reserved_; }
    // Starts the copies of all reserved(), `order` first (its adapters are indices in reserved()),
    // what it does not name after that, adapter by adapter.
    void enqueue(std::span<const LoadPiece> order);

   private:
    DeviceTier* tier_;
    std::vector<AdapterLease> reserved_;
    std::vector<SlotId> slots_;  // theirs
  };
  // A turn of one.
  Start start(const AdapterLease& adapter) { return Turn(*this).reserve(adapter); }

  // A running sequence uses the adapter from now on; requires that it is resident or loading.
  void enter(const ServedAdapter& adapter);
  void leave(const ServedAdapter& adapter);
  // And has got its first rows: what adapters are worth counts those.
  void count_use(const ServedAdapter& adapter);

  // Around what is enqueued of a step on all devices (lane()). At most kMaxStepsInFlight are under
  // way. One that begins and does not end was left by an exception: the streams are waited for,
  // then abandon().
  void step_begins() { in_step_ = true; }
  void step_ends();
  DeviceLane lane(std::size_t rank) { return {*this, rank}; }

  // Its row of the tables; requires that it is resident or loading.
  AdapterSlot slot(const ServedAdapter& adapter) const;
  AdapterTable table() const { return table_.slots(0).table(); }
  // Of the copy on the device; nothing is in doubt where there is none.
  AdapterProof proof(const ServedAdapter& adapter) const;

  // To the first device; those to the others are like it.
  LoadQueue& loads() { return *loads_.front(); }
  const LoadQueue& loads() const { return *loads_.front(); }
  bool has_room() const;  // LoadQueue::has_room, on all
  void feed();            // LoadQueue::feed, on all
  DeviceRoom& room() { return room_; }
  DeviceTierCounts counts() const;
  void forget_counts();  // of what has been

  // Waits for the loads under way (benchmarks, tests).
  Status finish_loads();

 private:
  friend class DeviceLane;
  DeviceTier(DeviceTable table, const KvCache& memory, PagePool& pool)
      : pool_(&pool), table_(std::move(table)), room_(table_, memory, pool) {}
  std::size_t num_loading() const { return table_.taken().size() - table_.resident().size(); }
  bool is_torn() const;
  Status give_up_loads() noexcept;
  void arrived(SlotId slot);
  void let_go_of_retired();

  PagePool* pool_;
  DeviceTable table_;
  DeviceRoom room_;
  std::vector<std::unique_ptr<LoadQueue>> loads_;  // [devices]; end before what they write to
  std::uint32_t generation_ = 0;                   // of the newest load; never 0
  bool in_turn_ = false;
  bool in_step_ = false;
  bool retiring_ = false;  // a retired adapter, or a bad one, is still there
  std::uint64_t num_loads_ = 0;
  std::uint64_t loaded_bytes_ = 0;
  std::vector<SlotId> ended_;  // of poll()
};

inline AdapterTable DeviceLane::table() const {
  return tier_->table_.slots(rank_).table();
}
inline LoadQueue& DeviceLane::loads() const {
  return *tier_->loads_[rank_];
}

}  // namespace tandem
