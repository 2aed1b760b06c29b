// The host tier: adapters in shared memory that the device copies from, and that other processes
// may map: an arena for each NUMA node that computes from them. One adapter is one run of bytes in
// one arena, as Adapter::bytes has it.
//
// Least recently used ones fall out when room is wanted, but for those that are pinned, that
// somebody holds the bytes of (a copy to the device under way), or that no folder could bring back.
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

// Tells those who wait for room in the host tier that there may be some. Thread-safe.
class RoomSignal {
 public:
  // So often something has been let go so far. Asked before take(), for wait().
  std::uint64_t count() const;
  // Waits until something has been let go that count() did not count yet. False: it is past the
  // deadline, or end().
  bool wait(std::uint64_t counted, std::chrono::steady_clock::time_point deadline);
  // Nobody waits any more, from now on.
  void end();
  void tell();  // by the tier
  int num_waiting() const;

 private:
  mutable std::mutex mutex_;  // guards these; no other is taken with it
  std::condition_variable changed_;
  std::uint64_t count_ = 0;
  int num_waiting_ = 0;
  bool ended_ = false;
};

class HostTier {
 public:
  using Id = std::uint64_t;

  // Takes and pins it all now, an even share of `bytes` for each of `nodes` (as the OS numbers
  // them; -1: anywhere). A node that is full, or may not be chosen, is a matter for the log: its
  // share then lies on others. `device` outlives the tier.
  static Result<std::shared_ptr<HostTier>> create(Device& device, std::size_t bytes,
                                                  const std::vector<int>& nodes = {-1});
  ~HostTier();
  HostTier(const HostTier&) = delete;
  HostTier& operator=(const HostTier&) = delete;

  // Whether an arena would hold so much if it held nothing else; invalid_argument says what to do.
  Status check_size(std::uint64_t bytes) const;
  // Room in one arena, not initialised; 64-byte aligned. Of the arenas that have it, the one with
  // most room left; where none has, others are dropped, from one arena: where the last to go was
  // used longest ago. It returns when the last owner lets go. invalid_argument:
  // check_size(); resource_exhausted, and nothing was dropped: it would not suffice (`retry`: now,
  // but soon perhaps, since copies hold some of it, or others have taken it and are filling it: the
  // room's signal tells).
  Result<AdapterBytes> take(std::size_t bytes, bool* retry = nullptr);
  RoomSignal& room() const { return *room_; }

  // Keeps what take() gave, and now is filled, until it is dropped or erased. `dropped` is called,
  // with this tier's mutex held, when it falls out; null: it never may.
  Id keep(AdapterBytes contents, std::function<void()> dropped);
  // The kept bytes, used last from now on; null: they have fallen out.
  AdapterBytes find(Id id);
  void erase(Id id);

  // Which arena bytes of take() lie in, and where in it: workers are told offsets.
  struct Place {
    std::size_t arena = 0;  // index in create()'s `nodes`
    std::uint64_t offset = 0;
  };
  Place place_of(const std::byte* data) const;
  std::size_t num_arenas() const { return arenas_.size(); }
  // Whether other processes may map all of it. Where /dev/shm has no room for it, it is memory of
  // this process alone, which the log says.
  bool is_shared() const { return !region_name(num_arenas() - 1).empty(); }
  const std::string& region_name(std::size_t arena) const;

  // Of those who fill it and those who compute from it.
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

  // What must go so that one arena has room for more.
  struct Room {
    std::size_t arena = 0;
    std::vector<Entries::iterator> victims;  // least recently used first
    std::size_t free_bytes = 0;              // before
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
