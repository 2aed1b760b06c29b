#include "gpu/host/context/host_communicator.h"

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <utility>

namespace tandem::host {
namespace {

// The longest time that a rank may arrive after another: a long prompt on a busy machine, and more.
constexpr std::chrono::seconds kDeadline{60};

}  // namespace

MeetingPoint::Parts MeetingPoint::meet(std::int32_t rank, const TensorView& part) {
  std::unique_lock lock(mutex_);
  if (broken_) fail();
  const std::uint64_t turn = turn_;
  Parts& shown = shown_[turn % 2];
  shown[static_cast<std::size_t>(rank)] = part;
  here_ |= 1U << static_cast<unsigned>(rank);
  if (here_ == (1U << static_cast<unsigned>(ranks_)) - 1) {
    here_ = 0;
    ++turn_;
    changed_.notify_all();
    return shown;
  }
  const bool came = changed_.wait_for(lock, kDeadline, [&] { return turn_ != turn || broken_; });
  if (turn_ != turn) return shown;
  if (!came) break_up(fmt::format("rank {} waited in vain for {} s", rank, kDeadline.count()));
  fail();
}

void MeetingPoint::fail() const {
  throw MeetingFailed(reason_.empty() ? "another rank has failed" : reason_);
}

void MeetingPoint::break_up(std::string reason) noexcept {
  broken_ = true;
  reason_ = std::move(reason);
  changed_.notify_all();
}

void MeetingPoint::leave(std::int32_t rank, std::string_view what) noexcept {
  const std::lock_guard lock(mutex_);
  if (broken_) return;
  std::string reason;
  try {
    reason = fmt::format("rank {} failed before {}", rank, what);
  } catch (const std::exception&) {  // ranks that meet fail all the same
  }
  break_up(std::move(reason));
}

void MeetingPoint::reset(std::int32_t rank) noexcept {
  const std::lock_guard lock(mutex_);
  has_reset_ |= 1U << static_cast<unsigned>(rank);
  if (has_reset_ != (1U << static_cast<unsigned>(ranks_)) - 1) return;
  has_reset_ = 0;
  here_ = 0;
  ++turn_;
  broken_ = false;
  reason_.clear();
}

Result<std::vector<std::unique_ptr<Communicator>>> HostCommunicator::connect(
    std::span<Device* const> devices) {
  if (devices.empty() || devices.size() > static_cast<std::size_t>(kMaxRanks)) {
    return invalid("a group has 1 to {} devices, not {}", kMaxRanks, devices.size());
  }
  auto point = std::make_shared<MeetingPoint>(static_cast<std::int32_t>(devices.size()));
  std::vector<std::unique_ptr<Communicator>> ends;
  for (Device* const device : devices) {
    if (device->info().is_cuda) return invalid("GPUs and host devices cannot be one group");
    const auto rank = static_cast<std::int32_t>(ends.size());
    ends.push_back(std::make_unique<HostCommunicator>(point, rank, *device));
  }
  return ends;
}

}  // namespace tandem::host
