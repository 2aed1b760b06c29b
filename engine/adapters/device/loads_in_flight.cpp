#include "engine/adapters/device/loads_in_flight.h"

#include <new>
#include <utility>

#include "base/check.h"

namespace tandem {

LoadsInFlight::LoadsInFlight(const DeviceTable& table, std::int32_t num_devices)
    : table_(&table), is_shared_(num_devices > 1) {
  const auto num_slots = static_cast<std::size_t>(table.num_slots());
  loads_.resize(num_slots);
  slots_.reserve(num_slots);
}

const AdapterLoad* LoadsInFlight::find(const ServedAdapter& adapter) const {
  const SlotId slot = table_->slot_of(adapter);
  return !slot.valid() ? nullptr : find(slot);
}

std::optional<ArrivingAdapter> LoadsInFlight::arriving(const ServedAdapter& adapter) const {
  const AdapterLoad* const load = find(adapter);
  if (load == nullptr || load->layers.empty()) return std::nullopt;
  if (!is_shared_ && load->whole != nullptr && load->whole->passed()) return std::nullopt;
  const SlotId slot = table_->slot_of(adapter);
  return ArrivingAdapter{
      slot,         load->generation, load->source,  table_->row(slot).reading.get(),
      load->layers, load->b_parts,    load->arrivals};
}

AdapterLease LoadsInFlight::arriving_in(SlotId slot) const {
  return find(slot) == nullptr ? nullptr : table_->row(slot).adapter;
}

std::vector<double> LoadsInFlight::unread(const ServedAdapter& adapter) const {
  const DeviceRow* const row = table_->find(adapter);
  if (row == nullptr || row->reading == nullptr) return {};
  return row->reading->seconds_left();
}

void LoadsInFlight::add(SlotId slot, AdapterBytes source, std::uint32_t generation) {
  auto& load = loads_[slot.index()];
  TANDEM_CHECK(load == nullptr, "slot {} is being loaded", slot.value());
  load = std::make_unique<AdapterLoad>();
  load->source = std::move(source);
  load->generation = generation;
  slots_.push_back(slot);  // it has room
}

void LoadsInFlight::remove(SlotId slot) noexcept {
  loads_[slot.index()].reset();
  std::erase(slots_, slot);
}

void LoadsInFlight::end_overdue_readings() const {
  for (const SlotId slot : slots_) {
    const auto& reading = table_->row(slot).reading;
    if (reading != nullptr) reading->end_if_overdue();
  }
}

void LoadsInFlight::await_readings() const noexcept {
  for (const SlotId slot : slots_) {
    const auto& reading = table_->row(slot).reading;
    if (reading == nullptr) continue;
    try {
      (void)reading->wait();
    } catch (const std::bad_alloc&) {  // from making the message; it has ended
    }
  }
}

}  // namespace tandem
