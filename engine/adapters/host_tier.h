// The host tier: adapters in shared memory, from which the device copies them and which other
// processes may map. There is an arena for each NUMA node with workers. An adapter is one
// contiguous range of bytes in one arena, as in Adapter::bytes.
//
// The least recently used adapters are dropped when room is needed, except those that are pinned,
// whose bytes are in use (such as by a copy to the device), or that no folder could restore.
// Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/adapters/shared_cores.h"
#include "engine/loader/adapter.h"
#include "gpu/device.h"

namespace tandem {

// Notifies threads that wait for room in the host tier. Thread-safe.
class RoomSignal {
 public:
  // How often room has been released so far. Call it before take(), and pass it to wait().
  std::uint64_t count() const;
  // Waits until room has been released since count() returned `counted`. Returns false at the
  // deadline, or after end().
  bool wait(std::uint64_t counted, std::chrono::steady_clock::time_point deadline);
  // Ends all waits, now and later.
  void end();
  void tell();  // called by the tier
  int num_waiting() const;

 private:
  mutable std::mutex mutex_;  // guards the members below; no other is taken with it
  std::condition_variable changed_;
  std::uint64_t count_ = 0;
  int num_waiting_ = 0;
  bool ended_ = false;
};

class HostTier {
 public:
  using Id = std::uint64_t;

  // Allocates and pins all memory now, an equal share of `bytes` on each of `nodes` (numbered as by
  // the OS; -1: any). If a node is full or not allowed, its share goes to others, and the log says
  // so. `device` outlives the tier.
  static Result<std::shared_ptr<HostTier>> create(Device& device, std::size_t bytes,
                                                  const std::vector<int>& nodes = {-1});
  ~HostTier();
  HostTier(const HostTier&) = delete;
  HostTier& operator=(const HostTier&) = delete;

  // Checks whether an empty arena could hold so many bytes; invalid_argument names the remedy.
  Status check_size(std::uint64_t bytes) const;
  // Takes uninitialised bytes from one arena, 64-byte aligned: from the one with the most free
  // bytes of those that have enough. If none has, adapters of one arena are dropped: the arena
  // where the last one to be dropped was used longest ago. The bytes are free again when their last
  // owner releases them. invalid_argument: see check_size(). resource_exhausted: there is not
  // enough to drop, and nothing was dropped (`retry`: there may be soon, as bytes are held by
  // copies or are being filled; room() notifies).
  Result<AdapterBytes> take(std::size_t bytes, bool* retry = nullptr);
  // The same, but waits for up to 10 s for bytes that are held, or until room() ends. `turn`, if
  // any, is locked for each attempt, unlocked during waits, and kept locked on return.
  Result<AdapterBytes> take_when_free(std::size_t bytes,
                                      std::unique_lock<std::mutex>* turn = nullptr);
  RoomSignal& room() const { return *room_; }

  // Keeps filled bytes from take() until they are dropped or erased. `dropped` is called when they
  // are dropped, with this tier's mutex held; null: they never may be.
  Id keep(AdapterBytes contents, std::function<void()> dropped);
  // The kept bytes, which become the most recently used; null: they have been dropped.
  AdapterBytes find(Id id);
  void erase(Id id);

  // The arena and offset of bytes from take(); workers get offsets.
  struct Place {
    std::size_t arena = 0;  // index of create()'s `nodes`
    std::uint64_t offset = 0;
  };
  Place place_of(const std::byte* data) const;
  std::size_t num_arenas() const { return arenas_.size(); }
  // True if other processes may map all of it. If /dev/shm has no room, the tier uses private
  // memory of this process, and the log says so.
  bool is_shared() const { return !region_name(num_arenas() - 1).empty(); }
  const std::string& region_name(std::size_t arena) const;

  // The cores that readers and workers share.
  SharedCores& cores() const { return cores_; }

  std::size_t capacity() const;  // of all arenas
  std::size_t used() const;

 private:
  struct Arena;
  struct Run;
  struct Entry {
    std::shared_ptr<Run> run;
    std::function<void()> dropped;
    std::uint64_t last_use = 0;
    Place place;
    std::size_t size = 0;
  };
  using Entries = std::map<Id, Entry>;

  // The entries to drop so that one arena has room.
  struct Room {
    std::size_t arena = 0;
    std::vector<Entries::iterator> victims;  // least recently used first
    std::size_t free_bytes = 0;              // before the drops
  };

  explicit HostTier(std::vector<std::shared_ptr<Arena>> arenas);
  std::optional<Room> find_room(std::size_t bytes);
  std::optional<Room> find_room_in(std::size_t arena, std::size_t bytes);
  bool is_any_held() const;
  AdapterBytes hand_out(std::shared_ptr<Run> run) const;

  mutable SharedCores cores_;
  const std::vector<std::shared_ptr<Arena>> arenas_;
  const std::shared_ptr<RoomSignal> room_ = std::make_shared<RoomSignal>();
  mutable std::mutex mutex_;  // guards all below; taken before an arena's
  Entries entries_;
  Id next_id_ = 1;
  std::uint64_t uses_ = 0;
};

}  // namespace tandem
