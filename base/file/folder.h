// A folder that strangers may change while it is read, and the files in it.
#pragma once

#include <filesystem>
#include <string>

#include "base/file/file.h"
#include "base/status.h"

namespace tandem {

// Owns a descriptor, by which all files are opened: they are those of the folder that was opened,
// whatever takes its place meanwhile. Move-only. Thread-safe.
class Folder {
 public:
  // Follows no link, wherever in `path` it is: permission_denied. So who has resolved a path, found
  // it to lie where it may, and opens it here, gets what lies there, or nothing, although anybody
  // put a link into it after that look. Messages do not tell the path: they go to clients.
  static Result<Folder> open(const std::filesystem::path& path);

  Folder(Folder&& other) noexcept;
  Folder& operator=(Folder&& other) noexcept;
  ~Folder();

  // As File::open_in() of this folder.
  Result<File> open_file(const std::string& name, const LinkRule& links) const;
  // Whether anything has that name, a link that leads nowhere included.
  bool holds(const std::string& name) const;

  int descriptor() const { return descriptor_; }  // O_PATH

 private:
  explicit Folder(int descriptor) : descriptor_(descriptor) {}

  int descriptor_ = -1;
};

// The path for Folder::open() of a folder that whoever runs this process has named: links in it
// are meant, and resolved here. What does not exist is left as it is.
Result<std::filesystem::path> resolve_links(const std::filesystem::path& path);

}  // namespace tandem
