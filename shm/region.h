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

#include "engine/base/status.h"

namespace tandem {

// Owns the mapping, the name and the lock. Move-only; the name is unlinked on destruction, what
// others have mapped lives until they let go.
class ShmRegion {
 public:
  // `purpose` is part of the name: letters, digits and '-'. The memory is zero and really there:
  // what /dev/shm cannot hold is resource_exhausted here, never a SIGBUS later. Mode 0600.
  static Result<ShmRegion> create(std::string_view purpose, std::size_t bytes);
  // Maps an existing region, read-only or not; the name stays its maker's.
  enum class Access { read_only, read_write };
  static Result<ShmRegion> open(const std::string& name, Access access);

  ShmRegion();
  ShmRegion(ShmRegion&& other) noexcept;
  ShmRegion& operator=(ShmRegion&& other) noexcept;
  ~ShmRegion();

  std::byte* data() const;  // page-aligned; null in an empty region
  std::size_t bytes() const;
  const std::string& name() const;  // as shm_open takes it

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

// What /dev/shm could still hold.
std::size_t free_shm_bytes();

}  // namespace tandem
