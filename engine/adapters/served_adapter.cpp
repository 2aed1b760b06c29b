#include "engine/adapters/served_adapter.h"

#include <chrono>
#include <utility>

#include "engine/base/check.h"

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

ServedAdapter::ServedAdapter(std::string name, Adapter contents, bool pinned, bool reloadable,
                             std::shared_ptr<HostTier> host)
    : name_(std::move(name)),
      contents_(std::move(contents)),
      pinned_(pinned),
      reloadable_(reloadable),
      loaded_unix_(std::chrono::duration_cast<std::chrono::seconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count()),
      host_(std::move(host)),
      folder_{contents_.path, std::move(contents_.source)} {
  put_into_host(std::exchange(contents_.bytes, nullptr));
}

ServedAdapter::~ServedAdapter() {
  TANDEM_CHECK(device_.slot < 0, "adapter '{}' goes while the device holds it", name_);
  host_->erase(host_id_);
}

ServedAdapter::Folder ServedAdapter::folder() const {
  const std::lock_guard lock(mutex_);
  return folder_;
}

void ServedAdapter::set_folder(Folder folder) {
  const std::lock_guard lock(mutex_);
  folder_ = std::move(folder);
}

void ServedAdapter::set_source(const Folder& seen) {
  const std::lock_guard lock(mutex_);
  if (folder_.path == seen.path) folder_.source = seen.source;
}

AdapterSlot ServedAdapter::slot() const {
  TANDEM_CHECK(device_.slot >= 0, "adapter '{}' is not on the device", name_);
  return {device_.slot, contents_.max_rank};
}

Status ServedAdapter::device_status() const {
  return device_.reading == nullptr ? Status() : device_.reading->status();
}

Status ServedAdapter::await_device_status() const {
  return device_.reading == nullptr ? Status() : device_.reading->wait();
}

bool ServedAdapter::is_proven() const {
  return device_.reading == nullptr || device_.reading->state() == AdapterReading::State::good;
}

ServedAdapter::HostCopy ServedAdapter::host_copy() const {
  HostTier::Id id = 0;
  HostCopy copy;
  {
    const std::lock_guard lock(mutex_);
    id = host_id_;
    copy.reading = reading_copy_;
  }
  if (copy.reading != nullptr && copy.reading->state() == AdapterReading::State::bad) return {};
  copy.bytes = host_->find(id);
  return copy;
}

// The state first: once kept, the bytes may be dropped at any moment.
void ServedAdapter::put_into_host(AdapterBytes bytes, std::shared_ptr<AdapterReading> reading) {
  state_->entered_host();
  std::function<void()> dropped;
  if (reloadable_ && !pinned_) dropped = [state = state_] { state->left_host(); };
  const HostTier::Id id = host_->keep(std::move(bytes), std::move(dropped));
  const std::lock_guard lock(mutex_);
  host_id_ = id;
  reading_copy_ = std::move(reading);
}

// First all that those need who then find out that it has ended.
void ServedAdapter::end_reading(const Status& status) {
  std::shared_ptr<AdapterReading> reading;
  HostTier::Id bad = 0;
  {
    const std::lock_guard lock(mutex_);
    reading = std::exchange(reading_copy_, nullptr);
    if (reading != nullptr && !status.ok()) bad = std::exchange(host_id_, 0);
    reading_ = false;
    read_failure_ = status;
  }
  if (bad != 0) {
    host_->erase(bad);
    state_->left_host();
  }
  if (reading != nullptr) reading->end(status);
}

}  // namespace tandem
