#include "cpu_lora/worker_pool/worker_speeds.h"

#include <algorithm>
#include <cmath>

namespace tandem {

void WorkerSpeeds::look(const Mailbox& mailbox) {
  const std::size_t worker_slots = mailbox.shape().num_worker_slots;
  std::array<Counted, kMaxWorkerSlots> now{};
  std::uint64_t most_jobs = 0;
  for (std::size_t i = 0; i < worker_slots; ++i) {
    // relaxed: these are counters and publish nothing. A wrong value leads only to a wrong speed.
    const WorkerSlot& worker_slot = mailbox.worker_slot(static_cast<int>(i));
    now[i] = {worker_slot.shared_jobs.load(std::memory_order_relaxed),
              worker_slot.shared_ns.load(std::memory_order_relaxed),
              worker_slot.shared_parts.load(std::memory_order_relaxed)};
    most_jobs = std::max(most_jobs, now[i].jobs - counted_[i].jobs);
  }
  if (most_jobs < kFewestJobs) return;

  std::array<double, kMaxWorkerSlots>
      measured{};  // parts per nanosecond; 0: it did not take part in all jobs
  std::array<double, kMaxWorkerSlots> sorted;
  std::size_t count = 0;
  for (std::size_t i = 0; i < worker_slots; ++i) {
    if (now[i].jobs - counted_[i].jobs != most_jobs) continue;
    const std::uint64_t ns = std::max<std::uint64_t>(now[i].ns - counted_[i].ns, 1);
    measured[i] = static_cast<double>(now[i].parts - counted_[i].parts) / static_cast<double>(ns);
    sorted[count++] = measured[i];
  }
  counted_ = now;
  std::sort(sorted.begin(), sorted.begin() + count);
  const double median = sorted[count / 2];
  for (std::size_t i = 0; i < worker_slots && count > 1 && median > 0; ++i) {
    if (measured[i] <= 0) continue;
    speeds_[i] = (speeds_[i] + std::clamp(measured[i] / median, kSlowest, kFastest)) / 2;
    const double weight = std::abs(speeds_[i] - 1) < kAlike ? 1 : speeds_[i];
    weights_[i] = static_cast<std::uint8_t>(std::lround(weight * kEvenWeight));
  }
}

}  // namespace tandem
