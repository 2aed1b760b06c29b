#include "engine/adapters/device/device_loads.h"

#include <algorithm>

namespace tandem {

Result<DeviceLoads> DeviceLoads::create(std::span<const TierDevice> devices,
                                        std::vector<AdapterSlots> slots, const ModelSpec& spec,
                                        const LoadSignals& signals, const DeviceTable& table) {
  DeviceLoads loads;
  const auto size = static_cast<std::int32_t>(devices.size());
  for (std::int32_t rank = 0; rank < size; ++rank) {
    LoadSignals told = signals;
    if (rank > 0) told.cold_starts = nullptr;  // the loads on other ranks are the same
    const auto at = static_cast<std::size_t>(rank);
    TANDEM_ASSIGN(auto queue, LoadQueue::create(devices[at], {rank, size}, spec, told,
                                                std::move(slots[at]), table));
    loads.queues_.push_back(std::move(queue));
  }
  for (auto* list : {&loads.arrived_, &loads.on_one_}) {
    list->reserve(static_cast<std::size_t>(table.num_slots()));
  }
  return loads;
}

bool DeviceLoads::has_room() const {
  return std::ranges::all_of(queues_, [](const auto& queue) { return queue->has_room(); });
}

void DeviceLoads::feed() {
  for (const auto& queue : queues_) queue->feed();
}

void DeviceLoads::reserve(SlotId slot, const AdapterBytes& source) {
  if (++generation_ == 0) ++generation_;
  try {
    for (const auto& queue : queues_) queue->reserve(slot, source, generation_);
  } catch (...) {
    for (const auto& queue : queues_) queue->forget(slot);
    throw;
  }
}

void DeviceLoads::enqueue(std::span<const SlotId> slots, std::span<const LoadPiece> order) {
  for (const auto& queue : queues_) queue->enqueue(slots, order);
}

bool DeviceLoads::is_torn() const {
  return std::ranges::any_of(queues_, [](const auto& queue) { return queue->is_torn(); });
}

void DeviceLoads::await_readings() const noexcept {
  for (const auto& queue : queues_) queue->await_readings();
}

Status DeviceLoads::finish() {
  for (const auto& queue : queues_) TANDEM_TRY(queue->finish());
  return {};
}

Result<std::span<const SlotId>> DeviceLoads::poll() {
  arrived_.clear();
  TANDEM_TRY(first().poll(arrived_));
  for (std::size_t rank = 1; rank < queues_.size(); ++rank) {
    on_one_.clear();
    TANDEM_TRY(on(rank).poll(on_one_));
    std::erase_if(arrived_, [this](SlotId slot) {
      return std::ranges::find(on_one_, slot) == on_one_.end();
    });
  }
  for (const SlotId slot : arrived_) {
    for (const auto& queue : queues_) queue->end(slot);
  }
  return std::span<const SlotId>(arrived_);
}

Status DeviceLoads::abandon() noexcept {
  Status status;
  for (const auto& queue : queues_) {
    if (Status failed = queue->abandon(); !failed && status.ok()) status = std::move(failed);
  }
  return status;
}

}  // namespace tandem
