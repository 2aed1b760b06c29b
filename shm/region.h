// A POSIX shared-memory region: made by an engine, mapped by its workers, gone with the engine.
//
// Names are /tandem-PID-RANDOM-PURPOSE, so that two engines on a machine do not meet. The maker
// holds a lock on the region as long as it lives, which the kernel lets go even on SIGKILL: a
// region whose maker's pid is dead and whose lock is free is stale, and the next start removes it.
// The lock is what counts in a container that shares /dev/shm but not its pids.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory/memory_info.h"
#include "base/status.h"

namespace tandem {

// Owns the mapping, the name and the lock. Move-only; the name is unlinked on destruction, what
// others have mapped lives until they let go.
class ShmRegion {
 public:
  // `purpose` is part of the name: letters, digits and '-'. The memory is zero and really there:
  // what /dev/shm or the machine's memory cannot hold is resource_exhausted here, never a SIGBUS or
  // an OOM kill later. It lies on NUMA node `node` as far as that has room (-1, or a machine
  // without NUMA: anywhere). Mode 0600.
  static Result<ShmRegion> create(std::string_view purpose, std::size_t bytes, int node = -1);
  // The same, but of this process alone: without a name, so that nobody else can map it, and
  // bounded by the machine's memory alone, whatever size /dev/shm has.
  static Result<ShmRegion> create_private(std::size_t bytes, int node = -1);
  // Maps an existing region, read-only or not; the name stays its maker's. unavailable: its maker
  // is not done with it.
  enum class Access { read_only, read_write };
  static Result<ShmRegion> open(const std::string& name, Access access);

  ShmRegion();
  ShmRegion(ShmRegion&& other) noexcept;
  ShmRegion& operator=(ShmRegion&& other) noexcept;
  ~ShmRegion();

  // A process of the same user may truncate the region's file. From now on that makes zeros of what
  // is cut off, in place of a SIGBUS that ends this process: for what is checked when it is read.
  void survive_truncation();

  std::byte* data() const;  // page-aligned; null in an empty region
  std::size_t bytes() const;
  const std::string& name() const;  // as shm_open takes it; empty in a private region

 private:
  struct Impl;
  explicit ShmRegion(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Removes the regions of dead engines and returns their names. For the start of an engine; regions
// of living ones, of this process too, are left alone. What may not be looked at is skipped.
std::vector<std::string> remove_stale_shm_regions();

// Unlinks the names of this process's regions; what is mapped stays. For a process that is about to
// end without destructors. Thread-safe, not for a signal handler.
void unlink_own_shm_regions();

// The names of regions of that purpose whose makers live, of this process too; those that may not
// be looked at are left out.
struct FoundShmRegion {
  std::string name;
  int maker = 0;        // its pid, as the maker knows it
  bool is_own = false;  // this process has made it
};
std::vector<FoundShmRegion> find_shm_regions(std::string_view purpose);

// What could still be put into /dev/shm: by its own size, and by the memory that is free. 0 where
// nothing may be written there.
std::size_t free_shm_bytes();

// /dev/shm as it is mounted.
struct ShmMount {
  std::size_t free_bytes = 0;  // by its size
  bool read_only = false;
};

// Why `bytes` of shared memory cannot be made, with the remedy. permission_denied: /dev/shm is
// read-only. resource_exhausted: it has no room for them, or there is no memory, by the machine or
// by a cgroup's limit.
Status check_shm_room(std::size_t bytes, const ShmMount& mount, const MemoryRoom& memory);

}  // namespace tandem
