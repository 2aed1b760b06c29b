#include "shm/control.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <string_view>

#include "base/check.h"

namespace tandem {
namespace {

template <std::size_t size>
Status put_text(const char* what, const std::string& from, char (&to)[size]) {
  if (from.size() >= size || from.find('\0') != std::string::npos) {
    return invalid("control region: {} has {} bytes, more than {}, or a zero among them", what,
                   from.size(), size - 1);
  }
  std::copy(from.begin(), from.end(), to);
  return {};
}

Status put_cpus(const char* what, const std::vector<int>& from, std::int32_t* to,
                std::int32_t& count, int most) {
  if (from.size() > static_cast<std::size_t>(most)) {
    return invalid("control region: {} {}, more than {}", from.size(), what, most);
  }
  std::copy(from.begin(), from.end(), to);
  count = static_cast<std::int32_t>(from.size());
  return {};
}

Status put_group(const ControlInfo::Group& from, ControlGroup& to) {
  if (from.num_worker_slots < 0 || from.num_worker_slots > kMaxWorkerSlots) {
    return invalid("control region: {} worker slots, not within 0 to {}", from.num_worker_slots,
                   kMaxWorkerSlots);
  }
  to.node = from.node;
  to.num_worker_slots = from.num_worker_slots;
  TANDEM_TRY(put_text("an inbox's name", from.inbox, to.inbox));
  TANDEM_TRY(put_text("an outbox's name", from.outbox, to.outbox));
  TANDEM_TRY(put_text("an arena's name", from.arena, to.arena));
  return put_cpus("cpus of a group", from.cpus, to.cpus, to.num_cpus, kMaxWorkerSlots);
}

template <std::size_t size>
Result<std::string> get_text(const char* what, const char (&from)[size]) {
  const std::size_t length = ::strnlen(from, size);
  if (length < size) return std::string(from, length);
  return invalid("{} does not end: the region is damaged", what);
}

Status check_count(const char* what, std::int32_t value, int most) {
  if (value >= 0 && value <= most) return {};
  return invalid("{} is {}, not within 0 to {}: the region is damaged", what, value, most);
}

Result<ControlInfo::Group> get_group(const ControlGroup& from) {
  TANDEM_TRY(check_count("num_worker_slots", from.num_worker_slots, kMaxWorkerSlots));
  TANDEM_TRY(check_count("num_cpus", from.num_cpus, kMaxWorkerSlots));
  ControlInfo::Group to;
  to.node = from.node;
  to.num_worker_slots = from.num_worker_slots;
  TANDEM_ASSIGN(to.inbox, get_text("inbox", from.inbox));
  TANDEM_ASSIGN(to.outbox, get_text("outbox", from.outbox));
  TANDEM_ASSIGN(to.arena, get_text("arena", from.arena));
  to.cpus.assign(from.cpus, from.cpus + from.num_cpus);
  return to;
}

Result<ControlInfo> get_info(const ShmRegion& region, int pid) {
  if (region.bytes() != sizeof(ControlLayout)) {
    return invalid("it has {} bytes and not {}: run the engine's own program", region.bytes(),
                   sizeof(ControlLayout));
  }
  const auto& from = *reinterpret_cast<const ControlLayout*>(region.data());
  // acquire: pairs with the release in ControlRegion::create, which comes after everything else.
  const std::uint32_t version = from.version.load(std::memory_order_acquire);
  if (version == 0) return error(StatusCode::unavailable, "not ready: the engine is starting");
  if (from.magic != kControlMagic) return invalid("not a control region");
  if (version != kControlVersion) {
    return invalid("version {}; this program knows {}: run the engine's own", version,
                   kControlVersion);
  }
  if (from.bytes != sizeof(ControlLayout) || from.pid != pid) {
    return invalid("its header speaks of {} bytes and pid {}: the region is damaged", from.bytes,
                   from.pid);
  }
  TANDEM_TRY(check_count("num_engine_cpus", from.num_engine_cpus, kMaxControlCpus));
  TANDEM_TRY(check_count("num_groups", from.num_groups, kMaxMailboxes));
  ControlInfo to;
  to.pid = from.pid;
  TANDEM_ASSIGN(to.model, get_text("model", from.model));
  to.engine_cpus.assign(from.engine_cpus, from.engine_cpus + from.num_engine_cpus);
  for (std::int32_t i = 0; i < from.num_groups; ++i) {
    TANDEM_ASSIGN(ControlInfo::Group group, get_group(from.groups[i]));
    to.groups.push_back(std::move(group));
  }
  return to;
}

}  // namespace

Result<ControlRegion> ControlRegion::create(const ControlInfo& info) {
  if (info.groups.size() > static_cast<std::size_t>(kMaxMailboxes)) {
    return invalid("control region: {} groups, more than {}", info.groups.size(), kMaxMailboxes);
  }
  TANDEM_ASSIGN(ShmRegion region, ShmRegion::create("control", sizeof(ControlLayout)));
  auto& to = *new (region.data()) ControlLayout{};
  to.magic = kControlMagic;
  to.pid = ::getpid();
  to.bytes = sizeof(ControlLayout);
  TANDEM_TRY(put_text("the model's name", info.model, to.model));
  TANDEM_TRY(put_cpus("cpus of the engine", info.engine_cpus, to.engine_cpus, to.num_engine_cpus,
                      kMaxControlCpus));
  to.num_groups = static_cast<std::int32_t>(info.groups.size());
  for (std::size_t i = 0; i < info.groups.size(); ++i) {
    TANDEM_TRY(put_group(info.groups[i], to.groups[i]));
  }
  // release: pairs with the acquire in get_info(), which then sees everything above.
  to.version.store(kControlVersion, std::memory_order_release);
  return ControlRegion(std::move(region));
}

void ControlRegion::set_cpus(int group, const std::vector<int>& cpus) {
  auto& layout = *reinterpret_cast<ControlLayout*>(region_.data());
  TANDEM_CHECK(group >= 0 && group < layout.num_groups, "group {}", group);
  ControlGroup& to = layout.groups[group];
  const auto count = std::min(cpus.size(), static_cast<std::size_t>(to.num_cpus));
  for (std::size_t i = 0; i < count; ++i) {
    // relaxed: each cpu is read on its own.
    std::atomic_ref<std::int32_t>(to.cpus[i]).store(cpus[i], std::memory_order_relaxed);
  }
}

Result<ControlInfo> read_control(int engine_pid) {
  for (const FoundShmRegion& found : find_shm_regions("control")) {
    if (found.maker != engine_pid) continue;
    TANDEM_ASSIGN(const ShmRegion region,
                  ShmRegion::open(found.name, ShmRegion::Access::read_only));
    Result<ControlInfo> info = get_info(region, engine_pid);
    if (!info) return info.status().with_context("control region " + found.name);
    return info;
  }
  return error(StatusCode::not_found, "there is no engine with pid {} that this user may inspect",
               engine_pid);
}

std::vector<int> list_engines() {
  std::vector<int> pids;
  for (const FoundShmRegion& found : find_shm_regions("control")) pids.push_back(found.maker);
  std::sort(pids.begin(), pids.end());
  pids.erase(std::unique(pids.begin(), pids.end()), pids.end());
  return pids;
}

}  // namespace tandem
