#include "gpu/host/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <limits>
#include <new>

#include "base/limits/bytes_text.h"

namespace tandem::host {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kPage = 4096;

// Stored in the page before the data, because Buffer's release function has no context argument.
struct Header {
  void* mapping;
  std::size_t mapping_bytes;
  std::size_t charged_bytes;
  std::shared_ptr<std::atomic<std::size_t>> used;
};
static_assert(sizeof(Header) <= kPage);

void release(std::byte* data, std::size_t /*bytes*/) {
  auto* header = reinterpret_cast<Header*>(data - kPage);
  void* const mapping = header->mapping;
  const std::size_t mapping_bytes = header->mapping_bytes;
  header->used->fetch_sub(header->charged_bytes);
  header->~Header();
  munmap(mapping, mapping_bytes);
}

}  // namespace

std::size_t physical_memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  return pages <= 0 || page_bytes <= 0
             ? 0
             : static_cast<std::size_t>(pages) * static_cast<std::size_t>(page_bytes);
}

MemoryPool::MemoryPool(std::size_t limit_bytes)
    : limit_bytes_(limit_bytes), used_(std::make_shared<std::atomic<std::size_t>>(0)) {}

Result<Buffer> MemoryPool::allocate(std::size_t bytes, std::string_view purpose) {
  std::size_t used = used_->load();
  do {
    if (bytes > limit_bytes_ || used > limit_bytes_ - bytes) {
      return error(StatusCode::resource_exhausted,
                   "not enough memory for {}: it needs {}, and {} of the limit of {} are in use",
                   purpose, size_text(bytes), size_text(used), size_text(limit_bytes_));
    }
  } while (!used_->compare_exchange_weak(used, used + bytes));

  const bool huge = bytes >= kHugePage;
  const std::size_t alignment = huge ? kHugePage : kPage;
  const std::size_t slack = kPage + alignment;
  if (bytes > std::numeric_limits<std::size_t>::max() - slack - kPage) {
    used_->fetch_sub(bytes);
    return invalid("cannot allocate {} for {}", size_text(bytes), purpose);
  }
  const std::size_t mapping_bytes = (bytes + slack + kPage - 1) / kPage * kPage;
  void* const mapping = mmap(nullptr, mapping_bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    const int failure = errno;
    used_->fetch_sub(bytes);
    return errno_status(
        fmt::format("mmap of {} for {}", bytes_text(static_cast<double>(bytes)), purpose), failure);
  }
  const auto address = reinterpret_cast<std::uintptr_t>(mapping);
  const std::uintptr_t aligned = (address + kPage + alignment - 1) / alignment * alignment;
  auto* const data = static_cast<std::byte*>(mapping) + (aligned - address);
  if (huge) madvise(data, bytes, MADV_HUGEPAGE);  // only a hint: a kernel without it is slower
  new (data - kPage) Header{mapping, mapping_bytes, bytes, used_};
  return Buffer(data, bytes, true, release);
}

}  // namespace tandem::host
