#include "engine/adapters/host_tier.h"

#include <sys/mman.h>

#include <utility>

#include "engine/base/check.h"
#include "engine/loader/parallel.h"

namespace tandem {
namespace {

// Gives the pages their memory by many threads: the driver, which pins them next, would have the
// kernel clear them one by one (55 s for 96 GB). Where that cannot be asked for, it does.
void touch([[maybe_unused]] std::byte* data, [[maybe_unused]] std::size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  parallel_chunks(bytes, std::size_t{256} << 20, [&](std::size_t begin, std::size_t end) {
    (void)::madvise(data + begin, end - begin, MADV_POPULATE_WRITE);
  });
#endif
}

}  // namespace

Result<std::shared_ptr<HostTier>> HostTier::create(Device& device, std::size_t bytes) {
  TANDEM_ASSIGN(ShmRegion region, ShmRegion::create("adapters", bytes));
  auto arena = std::make_shared<Arena>(std::move(region));
  if (device.info().is_cuda) touch(arena->region.data(), arena->region.bytes());
  TANDEM_ASSIGN(arena->pinned, device.pin(arena->region.data(), arena->region.bytes(),
                                          "the host tier of adapters (lower host_tier_gb)"));
  return std::shared_ptr<HostTier>(new HostTier(std::move(arena)));
}

AdapterBytes HostTier::try_take(std::size_t bytes) {
  std::optional<std::size_t> offset;
  {
    const std::lock_guard lock(arena_->mutex);
    offset = arena_->space.take(bytes);
    if (offset) ++arena_->runs;
  }
  if (!offset) return nullptr;
  return {arena_->region.data() + *offset, [arena = arena_, bytes](std::byte* data) {
            const std::lock_guard lock(arena->mutex);
            arena->space.give_back(static_cast<std::size_t>(data - arena->region.data()), bytes);
            --arena->runs;
          }};
}

Result<AdapterBytes> HostTier::take(std::size_t bytes, bool* retry) {
  if (bytes > capacity()) {
    return invalid("the adapter has {} bytes and the host tier {}: raise host_tier_gb", bytes,
                   capacity());
  }
  const std::lock_guard lock(mutex_);
  bool held = false;
  while (true) {
    if (AdapterBytes run = try_take(bytes)) return run;
    if (drop_oldest(held)) continue;
    if (retry != nullptr) *retry = held;
    return error(StatusCode::resource_exhausted,
                 "the host tier of adapters ({} bytes) has no room for {} more: what it holds is "
                 "pinned or in use; raise host_tier_gb or unload an adapter",
                 capacity(), bytes);
  }
}

// Only find() hands the bytes out, under the mutex: one owner means that nobody else has them.
bool HostTier::drop_oldest(bool& held) {
  auto oldest = entries_.end();
  held = num_runs() > entries_.size();  // being filled, or erased while a copy needs it
  for (auto each = entries_.begin(); each != entries_.end(); ++each) {
    if (each->second.dropped == nullptr) continue;
    if (each->second.bytes.use_count() > 1) {
      held = true;
    } else if (oldest == entries_.end() || each->second.last_use < oldest->second.last_use) {
      oldest = each;
    }
  }
  if (oldest == entries_.end()) return false;
  oldest->second.dropped();
  entries_.erase(oldest);
  return true;
}

std::size_t HostTier::num_runs() const {
  const std::lock_guard lock(arena_->mutex);
  return arena_->runs;
}

HostTier::Id HostTier::keep(AdapterBytes contents, std::function<void()> dropped) {
  TANDEM_CHECK(contents != nullptr);
  const std::lock_guard lock(mutex_);
  const Id id = next_id_++;
  entries_.emplace(id, Entry{std::move(contents), std::move(dropped), ++uses_});
  return id;
}

AdapterBytes HostTier::find(Id id) {
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(id);
  if (it == entries_.end()) return nullptr;
  it->second.last_use = ++uses_;
  return it->second.bytes;
}

void HostTier::erase(Id id) {
  const std::lock_guard lock(mutex_);
  entries_.erase(id);
}

std::size_t HostTier::used() const {
  const std::lock_guard lock(arena_->mutex);
  return arena_->space.capacity() - arena_->space.free_bytes();
}

}  // namespace tandem
