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
      path_(contents_.path) {
  put_into_host(std::exchange(contents_.bytes, nullptr));
}

ServedAdapter::~ServedAdapter() {
  TANDEM_CHECK(device_.slot < 0, "adapter '{}' goes while the device holds it", name_);
  host_->erase(host_id_);
}

std::string ServedAdapter::path() const {
  const std::lock_guard lock(mutex_);
  return path_;
}

void ServedAdapter::set_path(std::string path) {
  const std::lock_guard lock(mutex_);
  path_ = std::move(path);
}

AdapterSlot ServedAdapter::slot() const {
  TANDEM_CHECK(device_.slot >= 0, "adapter '{}' is not on the device", name_);
  return {device_.slot, contents_.max_rank};
}

AdapterBytes ServedAdapter::host_bytes() const {
  HostTier::Id id = 0;
  {
    const std::lock_guard lock(mutex_);
    id = host_id_;
  }
  return host_->find(id);
}

// The state first: once kept, the bytes may be dropped at any moment.
void ServedAdapter::put_into_host(AdapterBytes bytes) {
  state_->entered_host();
  std::function<void()> dropped;
  if (reloadable_ && !pinned_) dropped = [state = state_] { state->left_host(); };
  const HostTier::Id id = host_->keep(std::move(bytes), std::move(dropped));
  const std::lock_guard lock(mutex_);
  host_id_ = id;
}

}  // namespace tandem
