// A folder that other users may change while it is read, and the files in it.
#pragma once

#include <filesystem>
#include <string>

#include "base/file/file.h"
#include "base/status.h"

namespace tandem {

// Owns a descriptor through which all files are opened: they are those of the folder that was
// opened, whatever replaces it meanwhile. Move-only. Thread-safe.
class Folder {
 public:
  // Follows no link in `path`: permission_denied. So code that has resolved a path, checked that
  // its place is allowed, and opens it here, gets that place or an error, even if a link was
  // inserted after the check. Messages do not contain the path, because they go to clients.
  static Result<Folder> open(const std::filesystem::path& path);

  Folder(Folder&& other) noexcept;
  Folder& operator=(Folder&& other) noexcept;
  ~Folder();

  // As File::open_in() for this folder.
  Result<File> open_file(const std::string& name, const LinkRule& links) const;
  // True if there is anything of that name, including a dangling link.
  bool holds(const std::string& name) const;

  int descriptor() const { return descriptor_; }  // O_PATH

 private:
  explicit Folder(int descriptor) : descriptor_(descriptor) {}

  int descriptor_ = -1;
};

// The path to pass to Folder::open() for a folder that the process's owner has named: links in it
// are intended, and resolved here. A path that does not exist is returned unchanged.
Result<std::filesystem::path> resolve_links(const std::filesystem::path& path);

// True if `path` is `root` or lies in it; both with links resolved. Nothing lies in an empty root.
bool lies_under(const std::filesystem::path& path, const std::filesystem::path& root);

}  // namespace tandem
