// The loads to all devices of a model: each device loads its part of an adapter into the same slot,
// with a queue of its own. An adapter has arrived when its last part has, on the slowest device.
//
// Only the engine thread may use it; the queue of a device also the thread that enqueues the
// device's steps, while the engine thread does not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/adapters/device/device_table.h"
#include "engine/adapters/device/load_queue.h"

namespace tandem {

class DeviceLoads {
 public:
  DeviceLoads() = default;  // for no device
  // A queue for each device, with its `slots`. `table` and the devices outlive it.
  static Result<DeviceLoads> create(std::span<const TierDevice> devices,
                                    std::vector<AdapterSlots> slots, const ModelSpec& spec,
                                    const LoadSignals& signals, const DeviceTable& table);

  LoadQueue& on(std::size_t rank) { return *queues_[rank]; }
  // The loads to the first device; those to the others are like it.
  LoadQueue& first() { return on(0); }

  // The functions of LoadQueue on all devices. reserve() finds the generation.
  bool has_room() const;
  void feed();
  void reserve(SlotId slot, const AdapterBytes& source);
  void enqueue(std::span<const SlotId> slots, std::span<const LoadPiece> order);
  bool is_torn() const;
  void await_readings() const noexcept;
  Status finish();

  // Ends the loads that have arrived, and returns their slots, valid until the next call. A failure
  // is a failure of a device: call abandon() then.
  Result<std::span<const SlotId>> poll();
  // Ends all loads without success; the first failure of a device, if any.
  Status abandon() noexcept;

 private:
  std::vector<std::unique_ptr<LoadQueue>> queues_;  // [devices]
  std::uint32_t generation_ = 0;                    // of the newest load; never 0
  std::vector<SlotId> arrived_, on_one_;            // for poll(), with room for all slots
};

}  // namespace tandem
