// The files of the dashboard's page, as they are in the program (cmake/EmbedFiles.cmake).
#pragma once

#include <span>
#include <string_view>

namespace tandem {

struct PageFile {
  std::string_view name;
  std::string_view bytes;
  std::string_view tag;  // as HTTP's ETag: with its quotes
};

std::span<const PageFile> page_files();

}  // namespace tandem
