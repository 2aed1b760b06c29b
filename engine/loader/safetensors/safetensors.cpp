#include "engine/loader/safetensors/safetensors.h"

#include <utility>

#include "base/check.h"

namespace tandem {

SafetensorsFile::SafetensorsFile(std::string path, SafetensorsHeader header, MappedFile mapping)
    : path_(std::move(path)), header_(std::move(header)), mapping_(std::move(mapping)) {}

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  TANDEM_ASSIGN(const File file, File::open(path));
  TANDEM_ASSIGN(SafetensorsHeader header, SafetensorsHeader::read(file));
  TANDEM_ASSIGN(MappedFile mapping, MappedFile::map(file));
  return SafetensorsFile(file.path(), std::move(header), std::move(mapping));
}

std::span<const std::byte> SafetensorsFile::bytes(const TensorInfo& info) const {
  TANDEM_CHECK(info.begin <= info.end && info.end <= mapping_.bytes().size(), "{} to {} of {}",
               info.begin, info.end, mapping_.bytes().size());
  return mapping_.bytes().subspan(info.begin, info.end - info.begin);
}

}  // namespace tandem
