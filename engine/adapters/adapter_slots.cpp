#include "engine/adapters/adapter_slots.h"

#include <numeric>

#include "engine/base/check.h"

namespace tandem {

Result<std::shared_ptr<AdapterSlots>> AdapterSlots::create(Device& device, std::int32_t num_slots,
                                                           std::int64_t matrices_per_slot) {
  TANDEM_CHECK(num_slots >= 0 && matrices_per_slot > 0);
  std::shared_ptr<AdapterSlots> slots(new AdapterSlots());
  slots->num_slots_ = num_slots;
  slots->matrices_per_slot_ = matrices_per_slot;
  slots->free_.resize(static_cast<std::size_t>(num_slots));
  std::iota(slots->free_.rbegin(), slots->free_.rend(), 0);
  if (num_slots > 0) {
    const auto count = static_cast<std::size_t>(num_slots * matrices_per_slot);
    TANDEM_ASSIGN(slots->table_, device.allocate(count * sizeof(LoraMatrix),
                                                 "the adapter table (lower max_adapters)"));
  }
  return slots;
}

std::optional<std::int32_t> AdapterSlots::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return std::nullopt;
  const std::int32_t slot = free_.back();
  free_.pop_back();
  return slot;
}

void AdapterSlots::give_back(std::int32_t slot) {
  const std::lock_guard lock(mutex_);
  free_.push_back(slot);
}

LoraMatrix* AdapterSlots::row(std::int32_t slot) const {
  return reinterpret_cast<LoraMatrix*>(table_.data()) + slot * matrices_per_slot_;
}

}  // namespace tandem
