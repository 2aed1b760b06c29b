// A mapped safetensors file whose header has been checked.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engine/loader/safetensors/mapped_file.h"
#include "engine/loader/safetensors/safetensors_header.h"

namespace tandem {

// Move-only. Thread-safe once open.
class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const std::filesystem::path& path);

  const std::string& path() const { return path_; }
  const SafetensorsHeader& header() const { return header_; }
  const TensorInfo* find(std::string_view name) const { return header_.find(name); }

  // The tensor's bytes, row-major, little endian, not necessarily aligned to the element size.
  std::span<const std::byte> bytes(const TensorInfo& info) const;
  const MappedFile& mapping() const { return mapping_; }

 private:
  SafetensorsFile(std::string path, SafetensorsHeader header, MappedFile mapping);

  std::string path_;
  SafetensorsHeader header_;
  MappedFile mapping_;
};

}  // namespace tandem
