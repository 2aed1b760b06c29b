// The files of the dashboard's page, embedded in the program (cmake/EmbedFiles.cmake).
#pragma once

#include <span>
#include <string_view>

namespace tandem {

struct PageFile {
  std::string_view name;
  std::string_view bytes;
  std::string_view tag;  // HTTP's ETag, including its quotes
};

std::span<const PageFile> page_files();

}  // namespace tandem
