// The control region: an engine's description of itself for other processes of this machine.
// `tandem pin` finds the engine by it, starts workers and checks where they run. It is named
// /tandem-PID-RANDOM-control. The engine alone writes it, once: after its version is stored, only
// the cpus of its workers change. Texts end with a zero byte.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/ids/ticket.h"
#include "base/status.h"
#include "shm/mailbox.h"
#include "shm/region.h"

namespace tandem {

inline constexpr std::uint32_t kControlVersion = 1;
inline constexpr std::uint32_t kControlMagic = 0x43646e54;  // "TndC"
inline constexpr int kMaxControlCpus = 4096;
inline constexpr int kMaxRegionName = 128;  // bytes, with the zero
inline constexpr int kMaxModelName = 1024;

// 0 worker slots | 16 names | 400 cpus
struct ControlGroup {
  std::int32_t node;
  std::int32_t num_worker_slots;
  std::int32_t num_cpus;
  std::int32_t reserved;
  char inbox[kMaxRegionName];
  char outbox[kMaxRegionName];
  char arena[kMaxRegionName];
  std::int32_t cpus[kMaxWorkerSlots];
};
static_assert(offsetof(ControlGroup, inbox) == 16 && offsetof(ControlGroup, cpus) == 400);
static_assert(sizeof(ControlGroup) == 656);

// 0 identity | 64 model | 1088 engine's cpus | 17472 groups
struct ControlLayout {
  std::uint32_t magic;
  std::int32_t pid;
  std::uint64_t bytes;  // of the region
  std::int32_t num_engine_cpus;
  std::int32_t num_groups;
  std::atomic<std::uint32_t> version;  // kControlVersion; 0: not ready; stored last
  std::uint32_t reserved[9];
  char model[kMaxModelName];
  std::int32_t engine_cpus[kMaxControlCpus];
  ControlGroup groups[kMaxMailboxes];
};
static_assert(offsetof(ControlLayout, model) == 64 && offsetof(ControlLayout, engine_cpus) == 1088);
static_assert(offsetof(ControlLayout, groups) == 17472);
static_assert(sizeof(ControlLayout) == 17472 + kMaxMailboxes * sizeof(ControlGroup));

// The content of the control region, in plain values.
struct ControlInfo {
  struct Group {  // workers: one group per NUMA node
    int node = -1;
    std::string inbox, outbox;  // regions of its mailbox
    std::string arena;          // region from which its workers read weights
    int num_worker_slots = 0;
    std::vector<int> cpus;  // [worker slot]: for its workers; may be fewer
  };
  int pid = 0;
  std::string model;             // its served name
  std::vector<int> engine_cpus;  // for the engine's own threads
  std::vector<Group> groups;     // up to kMaxMailboxes
};

class ControlRegion {
 public:
  // Returns invalid_argument if something in `info` is too long or too many for the region. The pid
  // is that of this process.
  static Result<ControlRegion> create(const ControlInfo& info);
  const std::string& name() const { return region_.name(); }
  // Changes the cpus meant for a group's workers, by worker slot, as many as before; -1: none.
  void set_cpus(int group, const std::vector<int>& cpus);

 private:
  explicit ControlRegion(ShmRegion region) : region_(std::move(region)) {}
  ShmRegion region_;
};

// Reads the region of a running engine. not_found: no engine has that pid; unavailable: the region
// is not ready yet; other errors: the region is damaged or of another version.
Result<ControlInfo> read_control(int engine_pid);
// Returns the sorted pids of the engines on this machine whose regions may be read.
std::vector<int> list_engines();

}  // namespace tandem
