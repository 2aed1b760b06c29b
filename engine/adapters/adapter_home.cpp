#include "engine/adapters/adapter_home.h"

#include <functional>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/status_copy.h"

namespace tandem {

void ResidencyState::set(ResidencyEvent event) {
  const std::optional<Residency> to = next(now(), event);
  TANDEM_CHECK(to.has_value(), "event {} in state {}", static_cast<int>(event), tier_name(now()));
  state_.store(*to, std::memory_order_relaxed);
}

void ResidencyState::apply(ResidencyEvent event) {
  const std::lock_guard lock(mutex_);
  set(event);
}

bool ResidencyState::begin_load() {
  const std::lock_guard lock(mutex_);
  if (now() == Residency::on_disk) return false;
  set(ResidencyEvent::load);
  return true;
}

void ResidencyState::entered_host() {
  const std::lock_guard lock(mutex_);
  in_host_ = true;
  if (now() == Residency::on_disk) set(ResidencyEvent::read);
}

void ResidencyState::left_host() {
  const std::lock_guard lock(mutex_);
  in_host_ = false;
  if (now() == Residency::host) set(ResidencyEvent::dropped);
}

void ResidencyState::evicted() {
  const std::lock_guard lock(mutex_);
  set(in_host_ ? ResidencyEvent::evicted : ResidencyEvent::evicted_to_disk);
}

void ResidencyState::load_failed() {
  const std::lock_guard lock(mutex_);
  set(ResidencyEvent::failed);
  if (!in_host_) set(ResidencyEvent::dropped);
}

AdapterHome::AdapterHome(AdapterBytes bytes, Folder folder, bool may_drop,
                         std::shared_ptr<HostTier> host)
    : may_drop_(may_drop), host_(std::move(host)), folder_(std::move(folder)) {
  if (bytes != nullptr) put(std::move(bytes));
}

AdapterHome::~AdapterHome() {
  host_->erase(host_id_);
}

AdapterHome::Folder AdapterHome::folder() const {
  const std::lock_guard lock(mutex_);
  return folder_;
}

void AdapterHome::set_folder(Folder folder) {
  const std::lock_guard lock(mutex_);
  folder_ = std::move(folder);
  folder_identity_ = std::make_shared<char>();
  arriving_folder_ = nullptr;
}

std::shared_ptr<const void> AdapterHome::folder_identity() const {
  const std::lock_guard lock(mutex_);
  return folder_identity_;
}

void AdapterHome::set_source(const Folder& seen) {
  const std::lock_guard lock(mutex_);
  if (folder_.path == seen.path) folder_.source = seen.source;
}

AdapterHome::Copy AdapterHome::copy() const {
  HostTier::Id id = 0;
  Copy copy;
  {
    const std::lock_guard lock(mutex_);
    id = host_id_;
    copy.reading = reading_copy_;
  }
  if (copy.reading != nullptr && copy.reading->state() == AdapterReading::State::bad) return {};
  copy.bytes = host_->find(id);
  return copy;
}

// Sets the state first, as the bytes may be dropped as soon as they are kept.
void AdapterHome::put(AdapterBytes bytes, std::shared_ptr<AdapterReading> reading) {
  std::function<void()> dropped;
  if (may_drop_) dropped = [state = state_] { state->left_host(); };
  state_->entered_host();
  HostTier::Id id = 0;
  try {
    id = host_->keep(std::move(bytes), std::move(dropped));
  } catch (...) {
    state_->left_host();
    throw;
  }
  const std::lock_guard lock(mutex_);
  host_id_ = id;
  reading_copy_ = std::move(reading);
}

bool AdapterHome::begin_reading() {
  const std::lock_guard lock(mutex_);
  if (reading_ || state_->now() != Residency::on_disk) return false;
  reading_ = true;
  read_failure_ = {};
  return true;
}

// Sets everything else before reading->end(), as its waiters then read it.
void AdapterHome::end_reading(Status status) noexcept {
  Status copy = copy_of(status);
  std::shared_ptr<AdapterReading> reading;
  HostTier::Id bad = 0;
  {
    const std::lock_guard lock(mutex_);
    reading = std::exchange(reading_copy_, nullptr);
    if (reading != nullptr && !status.ok()) bad = std::exchange(host_id_, 0);
    reading_ = arriving_ = false;
    ++num_readings_;
    read_failure_ = std::move(copy);
  }
  drop_bad_copy(bad);
  if (reading != nullptr) reading->end(std::move(status));
}

void AdapterHome::drop_bad_copy(HostTier::Id bad) noexcept {
  if (bad == 0) return;
  host_->erase(bad);
  state_->left_host();
}

void AdapterHome::begin_arriving() {
  const std::lock_guard lock(mutex_);
  reading_ = arriving_ = true;
}

void AdapterHome::set_arriving_folder(std::shared_ptr<const ::tandem::Folder> folder) {
  const std::lock_guard lock(mutex_);
  arriving_folder_ = std::move(folder);
}

std::shared_ptr<const ::tandem::Folder> AdapterHome::arriving_folder() const {
  const std::lock_guard lock(mutex_);
  return arriving_folder_;
}

bool AdapterHome::is_arriving() const {
  const std::lock_guard lock(mutex_);
  return arriving_;
}

void AdapterHome::take_back(Status why) noexcept {
  std::shared_ptr<AdapterReading> reading;
  HostTier::Id bad = 0;
  {
    const std::lock_guard lock(mutex_);
    reading = std::exchange(reading_copy_, nullptr);
    if (reading != nullptr) bad = std::exchange(host_id_, 0);
  }
  drop_bad_copy(bad);
  if (reading != nullptr) reading->end(std::move(why));
}

std::uint64_t AdapterHome::num_readings() const {
  const std::lock_guard lock(mutex_);
  return num_readings_;
}

Status AdapterHome::read_failure(std::uint64_t after) const {
  const std::lock_guard lock(mutex_);
  return num_readings_ > after ? read_failure_ : Status();
}

}  // namespace tandem
