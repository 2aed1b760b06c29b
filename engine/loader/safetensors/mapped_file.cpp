#include "engine/loader/safetensors/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

namespace tandem {

Result<MappedFile> MappedFile::map(const File& file) {
  if (file.size() == 0) return MappedFile({});
  void* const address = ::mmap(nullptr, file.size(), PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (address == MAP_FAILED) return errno_status(fmt::format("cannot map {}", file.path()), errno);
  // A hint: the kernel reads further ahead and drops the pages behind first.
  ::madvise(address, file.size(), MADV_SEQUENTIAL);
  return MappedFile({static_cast<const std::byte*>(address), file.size()});
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::advise(std::span<const std::byte> range, int advice) const {
  if (range.empty()) return;
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  // The range is widened to whole pages, which lie in the mapping: it begins on a page and covers
  // its last one.
  const auto begin = reinterpret_cast<std::uintptr_t>(range.data()) & ~(page - 1);
  const auto end = reinterpret_cast<std::uintptr_t>(range.data()) + range.size();
  // The result is ignored: all advice used here changes only the cost, not the bytes.
  ::madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

void MappedFile::fetch(std::span<const std::byte> range) const {
#ifdef MADV_POPULATE_READ  // since Linux 5.14
  advise(range, MADV_POPULATE_READ);
#else
  advise(range, MADV_WILLNEED);
#endif
}

void MappedFile::drop(std::span<const std::byte> range) const {
  advise(range, MADV_DONTNEED);
}

}  // namespace tandem
