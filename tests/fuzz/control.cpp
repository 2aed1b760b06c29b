// Input: patches to an engine's control region, which another process then reads.
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "shm/control.h"
#include "tests/fuzz/patches.h"
#include "tests/fuzz/targets.h"

namespace tandem::fuzz {
namespace {

ControlInfo sample() {
  ControlInfo info;
  info.model = "a-model";
  info.engine_cpus = {0, 2, 4};
  info.groups = {{0, "/tandem-1-a-inbox", "/tandem-1-a-outbox", "/tandem-1-a-arena", 2, {1, 3}},
                 {-1, "/i", "/o", "/a", kMaxWorkerSlots, {}}};
  return info;
}

// Offsets cover the region's parts: its head and the model's name, the first cpus, the groups.
std::size_t place(std::size_t offset) {
  constexpr std::size_t kHead = 1088 + 256;
  if (offset < kHead) return offset;
  return offsetof(ControlLayout, groups) + (offset - kHead);
}

}  // namespace

void fuzz_control(Bytes bytes) {
  static const auto control = ControlRegion::create(sample());
  TANDEM_CHECK(control.ok(), "{}", control.status().message());
  static const auto region = ShmRegion::open(control->name(), ShmRegion::Access::read_write);
  TANDEM_CHECK(region.ok(), "{}", region.status().message());
  const std::span<std::byte> memory(region->data(), region->bytes());
  const Patches patches(bytes, memory, place);
  const Result<ControlInfo> read = read_control(::getpid());
  if (!read) return;
  TANDEM_CHECK(read->groups.size() <= static_cast<std::size_t>(kMaxMailboxes));
  TANDEM_CHECK(read->model.size() < kMaxModelName);
  for (const ControlInfo::Group& group : read->groups) {
    TANDEM_CHECK(group.num_worker_slots >= 0 && group.num_worker_slots <= kMaxWorkerSlots);
    TANDEM_CHECK(group.cpus.size() <= static_cast<std::size_t>(kMaxWorkerSlots));
    // A worker opens the regions that the group names.
    if (group.inbox.size() > 3) continue;
    TANDEM_CHECK(!Mailbox::open(group.inbox, group.outbox).ok());
  }
}

}  // namespace tandem::fuzz
