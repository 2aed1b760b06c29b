#include "shm/region.h"

#include <signal.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <boost/interprocess/anonymous_shared_memory.hpp>
#include <boost/interprocess/mapped_region.hpp>
#include <boost/interprocess/shared_memory_object.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/limits/bytes_text.h"
#include "base/parse_number.h"
#include "shm/numa.h"
#include "shm/truncation.h"

namespace tandem {
namespace {

namespace bip = boost::interprocess;

constexpr const char* kFolder = "/dev/shm";
constexpr std::string_view kPrefix = "tandem-";

// Held from making a region to locking it, so that this process's own search for stale regions does
// not find it.
std::mutex& making() {
  static std::mutex mutex;
  return mutex;
}

// The names of regions that this process has made: a process in another container may have its pid.
struct OwnNames {
  std::mutex mutex;
  std::set<std::string> names;
};

OwnNames& own_names() {
  static OwnNames own;
  return own;
}

bool is_own_name(const std::string& name) {
  const std::lock_guard lock(own_names().mutex);
  return own_names().names.contains(name);
}

std::string make_name(std::string_view purpose) {
  std::random_device random;
  return fmt::format("/{}{}-{:08x}-{}", kPrefix, ::getpid(), random(), purpose);
}

ShmMount shm_mount() {
  struct statvfs info {};
  if (::statvfs(kFolder, &info) != 0) return {};
  return {static_cast<std::size_t>(info.f_bavail) * info.f_frsize, (info.f_flag & ST_RDONLY) != 0};
}

std::string text(std::size_t bytes) {
  return bytes_text(static_cast<double>(bytes));
}

Status check_memory(std::size_t bytes, const MemoryRoom& memory) {
  if (bytes <= memory.free_bytes) return {};
  if (memory.limit) {
    return error(StatusCode::resource_exhausted,
                 "there is no memory for {} of shared memory: a cgroup's limit leaves {}; lower "
                 "host_tier_gb, or raise the limit (a container: --memory)",
                 text(bytes), to_text(*memory.limit));
  }
  return error(StatusCode::resource_exhausted,
               "there is no memory for {} of shared memory ({} are available): lower host_tier_gb, "
               "or end what else takes memory",
               text(bytes), text(memory.free_bytes));
}

// Gives the file its size and allocates every page, so that no later access can fail. Until then
// the size is 0, which shows other processes that the region is not ready.
Status allocate(int descriptor, std::size_t bytes) {
  int failure = EINTR;
  while (failure == EINTR) failure = ::posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
  if (failure == ENOSPC || failure == ENOMEM) {
    TANDEM_TRY(check_shm_room(bytes, shm_mount(), memory_room()));
    return error(StatusCode::resource_exhausted, "no memory for {} in {}", text(bytes), kFolder);
  }
  if (failure != 0) return errno_status("posix_fallocate of shared memory", failure);
  return {};
}

Status failed(const std::string& call, const bip::interprocess_exception& failure) {
  return errno_status(call, failure.get_native_error());
}

struct Name {
  pid_t maker = 0;
  std::string_view purpose;
};

// Parses tandem-PID-RANDOM-PURPOSE; the purpose is empty if there is none.
std::optional<Name> parse_name(std::string_view file) {
  if (!file.starts_with(kPrefix)) return std::nullopt;
  file.remove_prefix(kPrefix.size());
  Name name;
  name.maker = take_number<pid_t>(file).value_or(0);
  if (name.maker <= 0 || !file.starts_with('-')) return std::nullopt;
  file.remove_prefix(1);
  if (const std::size_t dash = file.find('-'); dash != std::string_view::npos) {
    name.purpose = file.substr(dash + 1);
  }
  return name;
}

// Whether the lock of a finished region is held. A region without a size is still being made, which
// touching its lock would disturb.
bool is_locked(const bip::shared_memory_object& object) {
  bip::offset_t bytes = 0;
  if (!object.get_size(bytes) || bytes == 0) return false;
  const int descriptor = object.get_mapping_handle().handle;
  return ::flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

// Calls visit(file, name) for everything in /dev/shm that is named like a region.
template <typename Visit>
void for_each_region(Visit visit) {
  std::error_code failure;
  for (std::filesystem::directory_iterator each(kFolder, failure), end; !failure && each != end;
       each.increment(failure)) {
    const std::string file = each->path().filename().string();
    if (const std::optional<Name> name = parse_name(file)) visit(file, *name);
  }
}

bool is_stale(const std::string& name, pid_t maker) {
  // This process may have been given the maker's pid again: then only the lock decides.
  if (maker != ::getpid() && (::kill(maker, 0) == 0 || errno != ESRCH)) return false;
  try {
    const bip::shared_memory_object object(bip::open_only, name.c_str(), bip::read_only);
    return ::flock(object.get_mapping_handle().handle, LOCK_EX | LOCK_NB) == 0;
  } catch (const bip::interprocess_exception&) {
    return false;  // another user's, or gone meanwhile
  }
}

}  // namespace

struct ShmRegion::Impl {
  std::string name;
  bip::shared_memory_object object;  // its descriptor holds the maker's lock
  bip::mapped_region mapping;
  bool owner = false;

  ~Impl() {
    forget_truncation(mapping.get_address());
    if (!owner) return;
    const std::lock_guard lock(own_names().mutex);
    own_names().names.erase(name);
    bip::shared_memory_object::remove(name.c_str());
  }
};

ShmRegion::ShmRegion() = default;
ShmRegion::ShmRegion(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ShmRegion::ShmRegion(ShmRegion&& other) noexcept = default;
ShmRegion& ShmRegion::operator=(ShmRegion&& other) noexcept = default;
ShmRegion::~ShmRegion() = default;

std::byte* ShmRegion::data() const {
  return impl_ == nullptr ? nullptr : static_cast<std::byte*>(impl_->mapping.get_address());
}
std::size_t ShmRegion::bytes() const {
  return impl_ == nullptr ? 0 : impl_->mapping.get_size();
}
void ShmRegion::survive_truncation() {
  TANDEM_CHECK(impl_ != nullptr);
  (void)tandem::survive_truncation(data(), bytes());
}
const std::string& ShmRegion::name() const {
  static const std::string none;
  return impl_ == nullptr ? none : impl_->name;
}

Result<ShmRegion> ShmRegion::create(std::string_view purpose, std::size_t bytes, int node) {
  TANDEM_CHECK(bytes > 0 && !purpose.empty(), "{} bytes for '{}'", bytes, purpose);
  TANDEM_TRY(check_shm_room(bytes, shm_mount(), memory_room()));
  auto impl = std::make_unique<Impl>();
  impl->name = make_name(purpose);
  try {
    const std::lock_guard lock(making());
    impl->object = bip::shared_memory_object(bip::create_only, impl->name.c_str(), bip::read_write,
                                             bip::permissions(0600));
    impl->owner = true;
    const std::lock_guard own_lock(own_names().mutex);
    own_names().names.insert(impl->name);
    if (::flock(impl->object.get_mapping_handle().handle, LOCK_EX | LOCK_NB) != 0) {
      return errno_status("flock of shared memory " + impl->name, errno);
    }
  } catch (const bip::interprocess_exception& failure) {
    return failed(fmt::format("shm_open of {} ({} must be a tmpfs that this process may write to)",
                              impl->name, kFolder),
                  failure);
  }
  try {
    impl->mapping = bip::mapped_region(impl->object, bip::read_write, 0, bytes);
  } catch (const bip::interprocess_exception& failure) {
    return failed(fmt::format("mmap of {} of {}", text(bytes), impl->name), failure);
  }
  // The NUMA policy belongs to the region, so it is set before any page is allocated.
  prefer_node(impl->mapping.get_address(), bytes, node);
  TANDEM_TRY(allocate(impl->object.get_mapping_handle().handle, bytes));
  return ShmRegion(std::move(impl));
}

Result<ShmRegion> ShmRegion::create_private(std::size_t bytes, int node) {
  TANDEM_CHECK(bytes > 0);
  TANDEM_TRY(check_memory(bytes, memory_room()));
  auto impl = std::make_unique<Impl>();
  try {
    impl->mapping = bip::anonymous_shared_memory(bytes);
  } catch (const bip::interprocess_exception& failure) {
    return failed(fmt::format("mmap of {} (lower host_tier_gb)", text(bytes)), failure);
  }
  prefer_node(impl->mapping.get_address(), bytes, node);
  // Allocates every page, as allocate() does.
  std::memset(impl->mapping.get_address(), 0, bytes);
  return ShmRegion(std::move(impl));
}

Result<ShmRegion> ShmRegion::open(const std::string& name, Access access) {
  const bip::mode_t mode = access == Access::read_only ? bip::read_only : bip::read_write;
  auto impl = std::make_unique<Impl>();
  impl->name = name;
  try {
    impl->object = bip::shared_memory_object(bip::open_only, name.c_str(), mode);
    bip::offset_t bytes = 0;
    if (impl->object.get_size(bytes) && bytes == 0) {
      return error(StatusCode::unavailable, "shared memory {} is not ready: it has no size yet",
                   name);
    }
    impl->mapping = bip::mapped_region(impl->object, mode);
  } catch (const bip::interprocess_exception& failure) {
    return failed("opening shared memory " + name, failure);
  }
  return ShmRegion(std::move(impl));
}

std::vector<std::string> remove_stale_shm_regions() {
  std::vector<std::string> removed;
  const std::lock_guard lock(making());
  for_each_region([&](const std::string& file, const Name& name) {
    if (!is_stale("/" + file, name.maker)) return;
    if (bip::shared_memory_object::remove(file.c_str())) removed.push_back(file);
  });
  return removed;
}

std::vector<FoundShmRegion> find_shm_regions(std::string_view purpose) {
  std::vector<FoundShmRegion> found;
  for_each_region([&](const std::string& file, const Name& name) {
    if (name.purpose != purpose) return;
    try {
      const bip::shared_memory_object object(bip::open_only, file.c_str(), bip::read_only);
      if (is_locked(object)) found.push_back({"/" + file, name.maker, is_own_name("/" + file)});
    } catch (const bip::interprocess_exception&) {
      return;  // another user's, or gone meanwhile
    }
  });
  return found;
}

void unlink_own_shm_regions() {
  const std::lock_guard lock(own_names().mutex);
  for (const std::string& name : own_names().names) {
    bip::shared_memory_object::remove(name.c_str());
  }
}

std::size_t free_shm_bytes() {
  const ShmMount mount = shm_mount();
  return mount.read_only ? 0 : std::min(mount.free_bytes, available_memory());
}

Status check_shm_room(std::size_t bytes, const ShmMount& mount, const MemoryRoom& memory) {
  if (mount.read_only) {
    return error(StatusCode::permission_denied,
                 "{0} is mounted read-only: make it writable with 'mount -o remount,rw {0}' (a "
                 "container with a read-only root: --tmpfs {0}; Kubernetes: an emptyDir of medium "
                 "Memory)",
                 kFolder);
  }
  if (bytes > mount.free_bytes) {
    return error(StatusCode::resource_exhausted,
                 "{0} has no room for {1} ({2} are free): lower host_tier_gb, or enlarge it with "
                 "'mount -o remount,size=SIZE {0}' (a container: --shm-size)",
                 kFolder, text(bytes), text(mount.free_bytes));
  }
  return check_memory(bytes, memory);
}

}  // namespace tandem
