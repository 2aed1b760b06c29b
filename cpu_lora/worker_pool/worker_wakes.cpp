#include "cpu_lora/worker_pool/worker_wakes.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>

#include "base/log/log.h"

namespace tandem {
namespace {

bool is_asleep(const WorkerSlot& worker_slot) {
  // acquire: pairs with the worker's release after it wrote its wake time.
  return worker_slot.state.load(std::memory_order_acquire) == WorkerSlotState::sleeping;
}

std::uint64_t said_by(const WorkerSlot& worker_slot) {
  return worker_slot.woke_ns.load(std::memory_order_relaxed);
}

}  // namespace

std::uint64_t sleepers(const Mailbox& mailbox) {
  std::uint64_t mask = 0;
  for (std::uint32_t i = 0; i < mailbox.shape().num_worker_slots; ++i) {
    if (is_asleep(mailbox.worker_slot(static_cast<int>(i)))) mask |= std::uint64_t{1} << i;
  }
  return mask;
}

void WorkerWakes::note_waking(const Mailbox& mailbox, std::uint64_t undisturbed, TimePoint now) {
  look(mailbox, now);
  const std::uint64_t asleep = sleepers(mailbox);
  if (asleep != 0) slept_until_ = now;
  if (awaited_ != 0) return;  // while workers are awaited, no others can be measured
  awaited_ = asleep & undisturbed;
  if (awaited_ == 0) return;
  woken_at_ = now;
  seen_[num_seen_++ % kRemembered].fill(-1);
  for (std::uint32_t i = 0; i < mailbox.shape().num_worker_slots; ++i) {
    said_[i] = said_by(mailbox.worker_slot(static_cast<int>(i)));
  }
}

void WorkerWakes::look(const Mailbox& mailbox, TimePoint now) {
  if (awaited_ == 0) return;
  const double elapsed = std::max(0.0, seconds_between(woken_at_, now));
  const std::chrono::nanoseconds woken = woken_at_.time_since_epoch();
  const auto woken_ns = static_cast<std::uint64_t>(woken.count());
  Took& took = seen_[(num_seen_ - 1) % kRemembered];
  for (std::uint32_t i = 0; i < mailbox.shape().num_worker_slots; ++i) {
    const std::uint64_t bit = std::uint64_t{1} << i;
    if ((awaited_ & bit) == 0) continue;
    const WorkerSlot& worker_slot = mailbox.worker_slot(static_cast<int>(i));
    const bool sleeps = is_asleep(worker_slot);
    const std::uint64_t said = said_by(worker_slot);
    const bool woke = said != said_[i];
    if (!woke && sleeps && elapsed <= kMostS) continue;
    const double so_long = said > woken_ns ? static_cast<double>(said - woken_ns) * 1e-9 : 0;
    const double seconds = std::min(so_long, elapsed);
    took[i] = woke && seconds <= kMostS ? static_cast<float>(seconds) : -1.0F;
    awaited_ &= ~bit;
  }
  if (awaited_ != 0) return;
  usual_s_ = rests_after(~std::uint64_t{0}, 0).mean_s;
  const float last = std::ranges::max(took);
  if (last < 0) return;
  log::debug("the last CPU worker was awake {:.3f} ms after it was woken", last * 1e3);
}

double WorkerWakes::awake_in(std::uint64_t asleep, TimePoint now) const {
  if (asleep == 0) return 0;
  const bool woken = (asleep & awaited_) != 0;
  const double elapsed = woken ? std::max(0.0, seconds_between(woken_at_, now)) : 0;
  const Rests rests = rests_after(asleep, elapsed);
  // A worker that takes longer than all samples is expected to take as long again.
  return rests.count > 0 ? rests.mean_s : std::max(elapsed, kFirstGuessS);
}

double WorkerWakes::just_woken_for(std::uint64_t asleep, TimePoint now) const {
  if (asleep != 0) return kJustWokenS;
  if (!slept_until_) return 0;
  return std::clamp(kJustWokenS - seconds_between(*slept_until_, now), 0.0, kJustWokenS);
}

WorkerWakes::Rests WorkerWakes::rests_after(std::uint64_t asleep, double elapsed_s) const {
  const std::size_t known = std::min(num_seen_, kRemembered);
  Rests rests;
  for (std::size_t i = 0; i < known; ++i) {
    double last = -1;
    for (std::uint64_t left = asleep; left != 0; left &= left - 1) {
      last = std::max<double>(last, seen_[i][static_cast<std::size_t>(std::countr_zero(left))]);
    }
    if (last <= elapsed_s) continue;
    rests.mean_s += last - elapsed_s;
    ++rests.count;
  }
  if (rests.count > 0) rests.mean_s /= rests.count;
  return rests;
}

}  // namespace tandem
