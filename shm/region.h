// A POSIX shared-memory region: created by an engine, mapped by its workers, removed with the
// engine.
//
// Names are /tandem-PID-RANDOM-PURPOSE, so that two engines on a machine do not collide. The maker
// holds a lock on the region while it lives, which the kernel releases even on SIGKILL: a region
// whose maker's pid is dead and whose lock is free is stale, and the next start removes it. In a
// container that shares /dev/shm but not its pids, the lock decides.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory/memory_info.h"
#include "base/status.h"

namespace tandem {

// Owns the mapping, the name and the lock. Move-only; destruction unlinks the name, and other
// processes' mappings stay until they unmap them.
class ShmRegion {
 public:
  // `purpose` is part of the name: letters, digits and '-'. The memory is zero and allocated at
  // once: memory beyond /dev/shm or the machine gives resource_exhausted here, never a SIGBUS or an
  // OOM kill later. It lies on NUMA node `node` as far as that has room (-1, or a machine without
  // NUMA: anywhere). Mode 0600.
  static Result<ShmRegion> create(std::string_view purpose, std::size_t bytes, int node = -1);
  // The same for this process alone: without a name, so that no other process can map it, and
  // limited by the machine's memory, not by the size of /dev/shm.
  static Result<ShmRegion> create_private(std::size_t bytes, int node = -1);
  // Maps an existing region, read-only or not; its maker keeps the name. unavailable: the maker has
  // not finished it.
  enum class Access { read_only, read_write };
  static Result<ShmRegion> open(const std::string& name, Access access);

  ShmRegion();
  ShmRegion(ShmRegion&& other) noexcept;
  ShmRegion& operator=(ShmRegion&& other) noexcept;
  ~ShmRegion();

  // A process of the same user may truncate the region's file. After this call the part that is cut
  // off reads as zeros, instead of raising a SIGBUS that ends this process. For data that is
  // checked when read.
  void survive_truncation();

  std::byte* data() const;  // page-aligned; null in an empty region
  std::size_t bytes() const;
  const std::string& name() const;  // as shm_open takes it; empty in a private region

 private:
  struct Impl;
  explicit ShmRegion(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Removes the regions of dead engines and returns their names. Called when an engine starts.
// Regions of living processes, this one's too, are kept; regions that may not be read are skipped.
std::vector<std::string> remove_stale_shm_regions();

// Unlinks the names of this process's regions; mappings stay. For a process that is about to end
// without destructors. Thread-safe, not for a signal handler.
void unlink_own_shm_regions();

// A region of that purpose whose maker lives; it may be this process. Regions that may not be read
// are left out.
struct FoundShmRegion {
  std::string name;
  int maker = 0;        // the maker's pid in its own namespace
  bool is_own = false;  // this process has made it
};
std::vector<FoundShmRegion> find_shm_regions(std::string_view purpose);

// Bytes that still fit into /dev/shm, by its own size and by the free memory. 0 if nothing may be
// written there.
std::size_t free_shm_bytes();

// The mount of /dev/shm.
struct ShmMount {
  std::size_t free_bytes = 0;  // by its size
  bool read_only = false;
};

// Checks that `bytes` of shared memory can be made; errors include the remedy. permission_denied:
// /dev/shm is read-only. resource_exhausted: it has no room, or there is no memory, by the machine
// or by a cgroup's limit.
Status check_shm_room(std::size_t bytes, const ShmMount& mount, const MemoryRoom& memory);

}  // namespace tandem
