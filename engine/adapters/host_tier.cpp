#include "engine/adapters/host_tier.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/limits/bytes_text.h"
#include "base/log/log.h"
#include "engine/adapters/offset_allocator.h"
#include "engine/loader/thread_team.h"
#include "shm/region.h"

namespace tandem {
namespace {

// Makes many threads populate the pages: otherwise the driver, which pins them next, would have the
// kernel clear them one by one (55 s for 96 GB). Without the system call the kernel does that.
void touch([[maybe_unused]] std::byte* data, [[maybe_unused]] std::size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  parallel_chunks(bytes, std::size_t{256} << 20, [&](std::size_t begin, std::size_t end) {
    (void)::madvise(data + begin, end - begin, MADV_POPULATE_WRITE);
  });
#endif
}

// If /dev/shm is full, small or read-only, the engine can still serve, without workers.
Result<ShmRegion> make_region(const std::string& purpose, std::size_t bytes, int node) {
  Result<ShmRegion> region = ShmRegion::create(purpose, bytes, node);
  if (region) return region;
  Result<ShmRegion> own = ShmRegion::create_private(bytes, node);
  if (own) {
    log::warning(
        "adapters are kept in this process's own memory, which CPU workers cannot read; cold "
        "adapters are loaded layer by layer instead, as in adapter_mode pipelined: {}",
        region.status().message());
  }
  return own;
}

}  // namespace

std::uint64_t RoomSignal::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

bool RoomSignal::wait(std::uint64_t counted, std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  ++num_waiting_;
  changed_.wait_until(lock, deadline, [&] { return ended_ || count_ != counted; });
  --num_waiting_;
  return !ended_ && count_ != counted;
}

void RoomSignal::end() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
}

void RoomSignal::tell() {
  {
    const std::lock_guard lock(mutex_);
    ++count_;
    if (num_waiting_ == 0) return;
  }
  changed_.notify_all();
}

int RoomSignal::num_waiting() const {
  const std::lock_guard lock(mutex_);
  return num_waiting_;
}

// Shared with the runs that it has given out, which may outlive the tier.
struct HostTier::Arena {
  explicit Arena(ShmRegion memory) : region(std::move(memory)), space(region.bytes()) {}

  static std::shared_ptr<Run> take(const std::shared_ptr<Arena>& arena, std::size_t bytes);
  void give_back(std::size_t offset) {
    const std::lock_guard lock(mutex);
    const auto run = runs.extract(offset);
    space.give_back(offset, run.mapped().bytes);
  }

  struct GivenOut {
    std::size_t bytes = 0;
    std::weak_ptr<Run> run;
  };
  ShmRegion region;
  Buffer pinned;  // destroyed before the region
  std::mutex mutex;
  OffsetAllocator space;                 // guarded by mutex, like runs
  std::map<std::size_t, GivenOut> runs;  // by offset
};

// Bytes in use until the last owner releases them: the tier that keeps them, or a caller.
struct HostTier::Run {
  Run(std::shared_ptr<Arena> of, std::size_t begin) : arena(std::move(of)), offset(begin) {}
  ~Run() { arena->give_back(offset); }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  const std::shared_ptr<Arena> arena;
  const std::size_t offset;
};

std::shared_ptr<HostTier::Run> HostTier::Arena::take(const std::shared_ptr<Arena>& arena,
                                                     std::size_t bytes) {
  const std::lock_guard lock(arena->mutex);
  const std::optional<std::size_t> offset = arena->space.take(bytes);
  if (!offset) return nullptr;
  try {
    const auto known = arena->runs.emplace(*offset, GivenOut{bytes, {}}).first;
    auto run = std::make_shared<Run>(arena, *offset);
    known->second.run = run;
    return run;
  } catch (...) {
    arena->runs.erase(*offset);
    arena->space.give_back(*offset, bytes);
    throw;
  }
}

HostTier::HostTier(std::vector<std::shared_ptr<Arena>> arenas) : arenas_(std::move(arenas)) {}
HostTier::~HostTier() = default;

Result<std::shared_ptr<HostTier>> HostTier::create(Device& device, std::size_t bytes,
                                                   const std::vector<int>& nodes) {
  TANDEM_CHECK(!nodes.empty() && bytes >= nodes.size(), "{} bytes on {} nodes", bytes,
               nodes.size());
  std::vector<std::shared_ptr<Arena>> arenas;
  bool shared = true;
  for (const int node : nodes) {
    const std::string purpose = node < 0 ? "adapters" : fmt::format("adapters-node{}", node);
    const std::size_t share = bytes / nodes.size();
    TANDEM_ASSIGN(ShmRegion region, shared ? make_region(purpose, share, node)
                                           : ShmRegion::create_private(share, node));
    shared = !region.name().empty();
    auto arena = std::make_shared<Arena>(std::move(region));
    if (device.info().is_cuda) touch(arena->region.data(), arena->region.bytes());
    TANDEM_ASSIGN(arena->pinned, device.pin(arena->region.data(), arena->region.bytes(),
                                            "the host tier of adapters (lower host_tier_gb)"));
    arenas.push_back(std::move(arena));
  }
  return std::shared_ptr<HostTier>(new HostTier(std::move(arenas)));
}

Status HostTier::check_size(std::uint64_t bytes) const {
  const std::size_t share = arenas_.front()->space.capacity();
  if (bytes > share && num_arenas() == 1) {
    return invalid("the adapter takes {} and the host tier has {}: raise host_tier_gb",
                   size_text(bytes), size_text(share));
  }
  if (bytes > share) {
    return invalid(
        "the adapter takes {}, and must lie on one of {} NUMA nodes, on each of which the host "
        "tier "
        "has {}: raise host_tier_gb, or have CPU workers on fewer nodes (worker_cpus)",
        size_text(bytes), num_arenas(), size_text(share));
  }
  return {};
}

Result<AdapterBytes> HostTier::take(std::size_t bytes, bool* retry) {
  TANDEM_TRY(check_size(bytes));
  const std::lock_guard lock(mutex_);
  std::optional<Room> best = find_room(bytes);
  if (!best) {
    const bool held = is_any_held();
    if (retry != nullptr) *retry = held;
    // Bytes released between the two calls were seen by neither; now no more can be released.
    if (!held) best = find_room(bytes);
  }
  if (!best) {
    return error(StatusCode::resource_exhausted,
                 "the host tier of adapters ({}) has no room for {} more: what it holds is "
                 "pinned or in use; raise host_tier_gb or unload an adapter",
                 size_text(capacity()), size_text(bytes));
  }
  for (const Entries::iterator victim : best->victims) {
    victim->second.dropped();
    entries_.erase(victim);
  }
  // The bytes are still free: others can only give back, as taking needs the mutex.
  std::shared_ptr<Run> run = Arena::take(arenas_[best->arena], bytes);
  TANDEM_CHECK(run != nullptr, "no room for {} bytes after all", bytes);
  return hand_out(std::move(run));
}

// Copies in flight release their bytes within the time of a load; a longer wait is not worth it.
Result<AdapterBytes> HostTier::take_when_free(std::size_t bytes,
                                              std::unique_lock<std::mutex>* turn) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (true) {
    const std::uint64_t counted = room_->count();
    if (turn != nullptr) turn->lock();
    bool retry = false;
    Result<AdapterBytes> taken = take(bytes, &retry);
    if (taken || !retry) return taken;
    if (turn != nullptr) turn->unlock();
    if (!room_->wait(counted, deadline)) return taken;
  }
}

// The caller becomes an owner of the run, and room_ is notified when it releases the bytes.
AdapterBytes HostTier::hand_out(std::shared_ptr<Run> run) const {
  std::byte* const data = run->arena->region.data() + run->offset;
  return {data, [run = std::move(run), room = room_](std::byte*) mutable {
            run.reset();
            room->tell();
          }};
}

std::optional<HostTier::Room> HostTier::find_room(std::size_t bytes) {
  std::optional<Room> best;
  // When the last one to be dropped was used, 0 for none; then the most free bytes.
  const auto price = [](const Room& room) {
    return std::tuple(room.victims.empty() ? 0 : room.victims.back()->second.last_use,
                      ~room.free_bytes);
  };
  for (std::size_t arena = 0; arena < num_arenas(); ++arena) {
    std::optional<Room> room = find_room_in(arena, bytes);
    if (room && (!best || price(*room) < price(*best))) best = std::move(room);
  }
  return best;
}

// Only find() hands out kept runs, under the mutex, so with one owner a run is not in use.
std::optional<HostTier::Room> HostTier::find_room_in(std::size_t arena, std::size_t bytes) {
  Room room;
  room.arena = arena;
  OffsetAllocator space = [&] {
    const std::lock_guard lock(arenas_[arena]->mutex);
    return arenas_[arena]->space;
  }();
  room.free_bytes = space.free_bytes();
  if (space.take(bytes)) return room;
  std::vector<Entries::iterator> droppable;
  std::size_t most = room.free_bytes;
  for (auto each = entries_.begin(); each != entries_.end(); ++each) {
    const Entry& entry = each->second;
    if (entry.place.arena != arena || !entry.dropped || entry.run.use_count() > 1) continue;
    droppable.push_back(each);
    most += entry.size + OffsetAllocator::kAlignment;
  }
  if (bytes > most) return std::nullopt;
  std::sort(droppable.begin(), droppable.end(),
            [](const auto& a, const auto& b) { return a->second.last_use < b->second.last_use; });
  for (const Entries::iterator each : droppable) {
    space.give_back(each->second.place.offset, each->second.size);
    room.victims.push_back(each);
    if (space.take(bytes)) return room;
  }
  return std::nullopt;
}

// True if some bytes cannot be released now, but may soon: a copy uses them, or they are being
// filled.
bool HostTier::is_any_held() const {
  std::size_t runs = 0;
  for (const auto& arena : arenas_) {
    const std::lock_guard lock(arena->mutex);
    runs += arena->runs.size();
  }
  if (runs > entries_.size()) return true;
  return std::any_of(entries_.begin(), entries_.end(), [](const auto& each) {
    return each.second.dropped && each.second.run.use_count() > 1;
  });
}

// Releases `contents` last, so that a thread that waits for room then finds entries to drop.
HostTier::Id HostTier::keep(AdapterBytes contents, std::function<void()> dropped) {
  TANDEM_CHECK(contents != nullptr);
  Entry entry;
  entry.place = place_of(contents.get());
  {
    Arena& arena = *arenas_[entry.place.arena];
    const std::lock_guard lock(arena.mutex);
    const Arena::GivenOut& given = arena.runs.at(entry.place.offset);
    entry.size = given.bytes;
    entry.run = given.run.lock();
  }
  entry.dropped = std::move(dropped);
  Id id = 0;
  {
    const std::lock_guard lock(mutex_);
    entry.last_use = ++uses_;
    id = next_id_++;
    entries_.emplace(id, std::move(entry));
  }
  contents.reset();
  return id;
}

AdapterBytes HostTier::find(Id id) {
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(id);
  if (it == entries_.end()) return nullptr;
  it->second.last_use = ++uses_;
  return hand_out(it->second.run);
}

void HostTier::erase(Id id) {
  {
    const std::lock_guard lock(mutex_);
    entries_.erase(id);
  }
  room_->tell();
}

HostTier::Place HostTier::place_of(const std::byte* data) const {
  for (std::size_t i = 0; i < num_arenas(); ++i) {
    const ShmRegion& region = arenas_[i]->region;
    // As integers, as pointers into different regions cannot be compared.
    const auto offset =
        reinterpret_cast<std::uintptr_t>(data) - reinterpret_cast<std::uintptr_t>(region.data());
    if (offset < region.bytes()) return {i, offset};
  }
  TANDEM_CHECK(false, "bytes that are not of the host tier");
  return {};
}

const std::string& HostTier::region_name(std::size_t arena) const {
  return arenas_[arena]->region.name();
}

std::size_t HostTier::capacity() const {
  return num_arenas() * arenas_.front()->space.capacity();
}

std::size_t HostTier::used() const {
  std::size_t used = 0;
  for (const auto& arena : arenas_) {
    const std::lock_guard lock(arena->mutex);
    used += arena->space.capacity() - arena->space.free_bytes();
  }
  return used;
}

}  // namespace tandem
