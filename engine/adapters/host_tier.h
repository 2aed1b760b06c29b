// The host tier: adapters in one shared-memory arena that the device copies from, and that other
// processes may map. One adapter is one run of bytes, as Adapter::bytes has it.
//
// Least recently used ones fall out when room is wanted, but for those that are pinned, that
// somebody holds the bytes of (a copy to the device under way), or that no folder could bring back.
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "engine/adapters/offset_allocator.h"
#include "engine/base/status.h"
#include "engine/loader/adapter.h"
#include "gpu/device.h"
#include "shm/region.h"

namespace tandem {

class HostTier {
 public:
  using Id = std::uint64_t;

  // The whole arena is taken and pinned now; `device` outlives it.
  static Result<std::shared_ptr<HostTier>> create(Device& device, std::size_t bytes);
  HostTier(const HostTier&) = delete;
  HostTier& operator=(const HostTier&) = delete;

  // Room in the arena, not initialised, dropping others if it must; 64-byte aligned. It returns
  // when the last owner lets go. invalid_argument: larger than the arena; resource_exhausted: what
  // is there cannot be dropped (`retry`: now, but soon perhaps, since copies hold some of it, or
  // others have taken it and are filling it).
  Result<AdapterBytes> take(std::size_t bytes, bool* retry = nullptr);

  // Keeps what take() gave, and now is filled, until it is dropped or erased. `dropped` is called,
  // with this tier's mutex held, when it falls out; null: it never may.
  Id keep(AdapterBytes contents, std::function<void()> dropped);
  // The kept bytes, used last from now on; null: they have fallen out.
  AdapterBytes find(Id id);
  void erase(Id id);

  const std::string& region_name() const { return arena_->region.name(); }
  // Where the arena begins, in this process: workers are told offsets.
  const std::byte* data() const { return arena_->region.data(); }
  std::size_t capacity() const { return arena_->space.capacity(); }
  std::size_t used() const;

 private:
  struct Entry {
    AdapterBytes bytes;
    std::function<void()> dropped;
    std::uint64_t last_use;
  };

  // Shared with the runs that it has given out, which may outlive the tier.
  struct Arena {
    explicit Arena(ShmRegion memory) : region(std::move(memory)), space(region.bytes()) {}

    ShmRegion region;
    Buffer pinned;  // lets go before the region does
    std::mutex mutex;
    OffsetAllocator space;  // guarded by mutex, like runs
    std::size_t runs = 0;   // given out
  };

  explicit HostTier(std::shared_ptr<Arena> arena) : arena_(std::move(arena)) {}
  AdapterBytes try_take(std::size_t bytes);
  bool drop_oldest(bool& held);
  std::size_t num_runs() const;

  const std::shared_ptr<Arena> arena_;
  std::mutex mutex_;  // guards all below; taken before the arena's
  std::map<Id, Entry> entries_;
  Id next_id_ = 1;
  std::uint64_t uses_ = 0;
};

}  // namespace tandem
